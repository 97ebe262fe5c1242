/** Data of the node, asked for again at an interval while the page is visible; the last good answer stays while asking. */
import { useCallback, useEffect, useRef, useState } from "react"
import { messageOf } from "./api.ts"

export interface Query<A> {
  readonly data: A | null
  readonly error: string | null
  readonly refresh: () => void
}

/**
 * `key` says what is asked for: another key drops the data and asks at once. `everyMs` 0 asks once. Nothing is asked before it is
 * `due`.
 */
export const useQuery = <A>(key: string, ask: () => Promise<A>, everyMs = 5000, due = true): Query<A> => {
  const [data, setData] = useState<{ readonly key: string; readonly value: A } | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [turn, setTurn] = useState(0)
  const asked = useRef(ask)
  asked.current = ask

  useEffect(() => {
    if (!due) return
    let alive = true
    let timer = 0
    const run = async () => {
      if (!document.hidden) {
        try {
          const value = await asked.current()
          if (!alive) return
          setData({ key, value })
          setError(null)
        } catch (failure) {
          if (!alive) return
          setError(messageOf(failure))
        }
      }
      if (alive && everyMs > 0) timer = window.setTimeout(() => void run(), everyMs)
    }
    void run()
    return () => {
      alive = false
      window.clearTimeout(timer)
    }
  }, [key, everyMs, turn, due])

  const refresh = useCallback(() => setTurn((n) => n + 1), [])
  return { data: data?.key === key ? data.value : null, error, refresh }
}
