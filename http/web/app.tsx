/** The frame around every page: navigation, theme, help, who is signed in. */
import { RecordingToken } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { useEffect, useRef, useState } from "react"
import { CamerasPage } from "./pages/cameras.tsx"
import { LivePage } from "./pages/live.tsx"
import { PlayerPage } from "./pages/player.tsx"
import { RecordingsPage } from "./pages/recordings.tsx"
import { SystemPage } from "./pages/system.tsx"
import { Help } from "./parts/help.tsx"
import { Icon } from "./parts/icons.tsx"
import { Empty } from "./parts/notes.tsx"
import { type Route, useRoute } from "./route.ts"
import { useSession } from "./session.tsx"

const places = [
  ["live", "Live"],
  ["cameras", "Cameras"],
  ["recordings", "Recordings"],
  ["system", "System"],
] as const

const asToken = Schema.decodeUnknownOption(RecordingToken)

const themes = ["auto", "dark", "light"] as const
type Theme = (typeof themes)[number]
const themeNames: Readonly<Record<Theme, string>> = { auto: "as the system", dark: "dark", light: "light" }

const useTheme = (): [Theme, () => void] => {
  const [theme, setTheme] = useState<Theme>(() =>
    themes.find((one) => one === localStorage.getItem("nightjar.theme")) ?? "auto"
  )
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset["theme"]
    else document.documentElement.dataset["theme"] = theme
    localStorage.setItem("nightjar.theme", theme)
  }, [theme])
  return [theme, () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]!)]
}

const Page = ({ route }: { readonly route: Route }) => {
  const token = Option.getOrNull(asToken(route.argument))
  if (route.page === "live") return <LivePage />
  if (route.page === "cameras") return <CamerasPage />
  if (route.page === "recordings") return <RecordingsPage />
  if (route.page === "system") return <SystemPage />
  if (route.page === "play" && token !== null) {
    return <PlayerPage key={token} token={token} at={Number(route.query.get("t")) || null} />
  }
  return (
    <Empty icon="trouble" title="There is no such page">
      <a className="button" href="#/live">Go to the live pictures</a>
    </Empty>
  )
}

export const App = () => {
  const route = useRoute()
  const { leave, user } = useSession()
  const [theme, nextTheme] = useTheme()
  const [help, setHelp] = useState(false)
  const main = useRef<HTMLElement>(null)
  const shown = useRef(route.page)
  const page = route.page === "play" ? "recordings" : route.page

  useEffect(() => {
    const place = places.find(([id]) => id === page)?.[1] ?? "Nightjar"
    document.title = `${route.page === "play" ? "Player" : place} · Nightjar`
    // A new page begins at its top, for the eye and for the keyboard alike.
    if (shown.current !== route.page) main.current?.focus()
    shown.current = route.page
  }, [page, route.page])

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.key !== "?" || (event.target instanceof HTMLElement && event.target.matches("input, select"))) return
      setHelp(true)
    }
    window.addEventListener("keydown", key)
    return () => window.removeEventListener("keydown", key)
  }, [])

  return (
    <div className="shell">
      <a
        className="skip"
        href={`#/${route.page}`}
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        Skip to the content
      </a>
      <header className="side">
        <div className="brand">
          <img src="/nightjar.svg" alt="" width="28" height="28" />
          Nightjar
        </div>
        <nav aria-label="Pages">
          {places.map(([id, name]) => (
            <a key={id} href={`#/${id}`} aria-current={page === id ? "page" : undefined}>
              <Icon name={id} />
              {name}
            </a>
          ))}
        </nav>
        <div className="foot">
          <span className="who" title="Signed in">{user.displayName || user.username}</span>
          <button
            type="button"
            className="plain"
            onClick={() => setHelp(true)}
            aria-label="Keyboard help"
            title="Keyboard help (?)"
          >
            <Icon name="help" />
          </button>
          <button
            type="button"
            className="plain"
            onClick={nextTheme}
            aria-label={`Theme: ${themeNames[theme]}`}
            title={`Theme: ${themeNames[theme]}`}
          >
            <Icon name={theme} />
          </button>
          <button type="button" className="plain" onClick={leave} aria-label="Sign out" title="Sign out">
            <Icon name="leave" />
          </button>
        </div>
      </header>
      <main ref={main} tabIndex={-1}>
        <Page route={route} />
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  )
}
