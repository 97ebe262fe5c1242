/** Pages by the address's fragment: `#/cameras`, `#/play/<recordingToken>?t=<epoch ms>`. */
import { useEffect, useState } from "react"

export interface Route {
  readonly page: string
  readonly argument: string | null
  readonly query: URLSearchParams
}

const parse = (): Route => {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?")
  const [page = "", argument] = path.split("/")
  return { page: page === "" ? "live" : page, argument: argument ?? null, query: new URLSearchParams(query) }
}

export const useRoute = (): Route => {
  const [route, setRoute] = useState(parse)
  useEffect(() => {
    const change = () => setRoute(parse())
    window.addEventListener("hashchange", change)
    return () => window.removeEventListener("hashchange", change)
  }, [])
  return route
}
