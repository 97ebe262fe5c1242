/** The frame around every page: navigation, theme, who is signed in. */
import { RecordingToken } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { useEffect, useState } from "react"
import { CamerasPage } from "./pages/cameras.tsx"
import { LivePage } from "./pages/live.tsx"
import { PlayerPage } from "./pages/player.tsx"
import { RecordingsPage } from "./pages/recordings.tsx"
import { SystemPage } from "./pages/system.tsx"
import { useRoute } from "./route.ts"
import { useSession } from "./session.tsx"

const places = [
  ["live", "Live", "◉"],
  ["cameras", "Cameras", "▣"],
  ["recordings", "Recordings", "▤"],
  ["system", "System", "◧"],
] as const

const asToken = Schema.decodeUnknownOption(RecordingToken)

type Theme = "system" | "dark" | "light"

const useTheme = (): [Theme, () => void] => {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem("theme") as Theme | null) ?? "system")
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"]
    else document.documentElement.dataset["theme"] = theme
    localStorage.setItem("theme", theme)
  }, [theme])
  return [theme, () => setTheme(theme === "system" ? "dark" : theme === "dark" ? "light" : "system")]
}

export const App = () => {
  const route = useRoute()
  const { leave, user } = useSession()
  const [theme, nextTheme] = useTheme()
  const token = Option.getOrNull(asToken(route.argument))
  const page = route.page === "play" ? "recordings" : route.page
  return (
    <div className="shell">
      <nav className="side" aria-label="Pages">
        <div className="brand">
          <img src="/nightjar.svg" alt="" />
          Nightjar
        </div>
        {places.map(([id, name, sign]) => (
          <a key={id} href={`#/${id}`} aria-current={page === id ? "page" : undefined}>
            <span aria-hidden="true">{sign}</span>
            {name}
          </a>
        ))}
        <div className="foot">
          <span className="small muted">{user.displayName || user.username}</span>
          <button type="button" onClick={nextTheme}>Theme: {theme}</button>
          <button type="button" onClick={leave}>Sign out</button>
        </div>
      </nav>
      <main>
        {route.page === "live" && <LivePage />}
        {route.page === "cameras" && <CamerasPage />}
        {route.page === "recordings" && <RecordingsPage />}
        {route.page === "play" && token !== null && (
          <PlayerPage key={token} token={token} at={Number(route.query.get("t")) || null} />
        )}
        {route.page === "system" && <SystemPage />}
      </main>
    </div>
  )
}
