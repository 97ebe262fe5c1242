/** The frame around every page: navigation, notifications, theme, help, who is signed in. */
import { CameraId, RecordingToken } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { useCallback, useEffect, useRef, useState } from "react"
import { AuditPage } from "./pages/audit.tsx"
import { CameraAddPage } from "./pages/camera-add.tsx"
import { CameraImportPage } from "./pages/camera-import.tsx"
import { CameraJobPage } from "./pages/camera-job.tsx"
import { CameraPage } from "./pages/camera.tsx"
import { CamerasPage } from "./pages/cameras.tsx"
import { GroupsPage } from "./pages/groups.tsx"
import { LicencePage } from "./pages/licence.tsx"
import { LivePage } from "./pages/live.tsx"
import { MatrixPage } from "./pages/matrix.tsx"
import { NodesPage } from "./pages/nodes.tsx"
import { NotificationsPage } from "./pages/notifications.tsx"
import { PlayerPage } from "./pages/player.tsx"
import { ProfilePage } from "./pages/profile.tsx"
import { RecordingsPage } from "./pages/recordings.tsx"
import { ReroutesPage } from "./pages/reroutes.tsx"
import { RolesPage } from "./pages/roles.tsx"
import { RulesPage } from "./pages/rules.tsx"
import { SecurityPage } from "./pages/security.tsx"
import { SystemPage } from "./pages/system.tsx"
import { UsersPage } from "./pages/users.tsx"
import { Bell } from "./parts/bell.tsx"
import { Help } from "./parts/help.tsx"
import { Icon } from "./parts/icons.tsx"
import { Navigation } from "./parts/navigation.tsx"
import { Empty } from "./parts/notes.tsx"
import { RerouteBadge } from "./parts/reroute-badge.tsx"
import { placeOf, places } from "./places.ts"
import { type Route, useRoute } from "./route.ts"
import { useSession } from "./session.tsx"

const asToken = Schema.decodeUnknownOption(RecordingToken)
const asCamera = Schema.decodeUnknownOption(CameraId)

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

const titles: Readonly<Record<string, string>> = {
  play: "Player",
  roles: "Roles",
  matrix: "Who may what",
  groups: "Resource groups",
  notifications: "Notifications",
  profile: "Profile",
}

const NotAllowed = ({ name }: { readonly name: string }) => (
  <Empty icon="lock" title={`${name}: not for this account`}>
    <p>None of your roles grants what this page shows. An administrator can change that under Users and access.</p>
  </Empty>
)

const Page = ({ route }: { readonly route: Route }) => {
  const { may } = useSession()
  const token = Option.getOrNull(asToken(route.argument))
  const place = places.find(({ id }) => id === placeOf(route.page))
  if (place !== undefined && !place.needs.some(may)) return <NotAllowed name={place.name} />
  if (route.page === "live") return <LivePage />
  const camera = Option.getOrNull(asCamera(route.argument))
  if (route.page === "cameras" && camera !== null) {
    return <CameraPage key={camera} id={camera} show={route.query.get("show")} />
  }
  if (route.page === "cameras" && may("camera:write") && (route.argument === "add" || route.query.has("add"))) {
    return <CameraAddPage />
  }
  if (route.page === "cameras" && route.argument === "import" && may("camera:backup")) return <CameraImportPage />
  if (route.page === "cameras" && route.argument === "jobs" && may("camera:write")) {
    return <CameraJobPage id={route.query.get("id")} />
  }
  if (route.page === "cameras") return <CamerasPage />
  if (route.page === "recordings") return <RecordingsPage />
  if (route.page === "profile") return <ProfilePage />
  if (route.page === "notifications" && may("notification:read")) return <NotificationsPage />
  if (route.page === "rules") return <RulesPage />
  if (route.page === "users") return <UsersPage />
  if (route.page === "roles") return <RolesPage />
  if (route.page === "matrix") return <MatrixPage />
  if (route.page === "groups") return <GroupsPage />
  if (route.page === "security") return <SecurityPage tab={route.argument} />
  if (route.page === "audit") return <AuditPage />
  if (route.page === "licence") return <LicencePage />
  if (route.page === "nodes") return <NodesPage />
  if (route.page === "reroutes") return <ReroutesPage />
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

/** A key that starts something, unless somebody is writing. */
const useHelpKey = (open: () => void) => {
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (
        event.key !== "?" || (event.target instanceof HTMLElement && event.target.matches("input, select, textarea"))
      ) {
        return
      }
      open()
    }
    window.addEventListener("keydown", key)
    return () => window.removeEventListener("keydown", key)
  }, [open])
}

const Foot = ({ onHelp }: { readonly onHelp: () => void }) => {
  const { leave, user } = useSession()
  const [theme, nextTheme] = useTheme()
  return (
    <div className="foot">
      <a className="who" href="#/profile" title="Your profile">
        <Icon name="person" />
        <span className="cut">{user.displayName || user.username}</span>
      </a>
      <button
        type="button"
        className="plain help"
        onClick={onHelp}
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
  )
}

export const App = () => {
  const route = useRoute()
  const [help, setHelp] = useState(false)
  const main = useRef<HTMLElement>(null)
  const shown = useRef(route.page)
  const page = placeOf(route.page)
  const showHelp = useCallback(() => setHelp(true), [])
  useHelpKey(showHelp)

  useEffect(() => {
    const name = titles[route.page] ?? places.find(({ id }) => id === page)?.name
    document.title = name === undefined ? "Nightjar" : `${name} · Nightjar`
    // A new page begins at its top, for the eye and for the keyboard alike.
    if (shown.current !== route.page) main.current?.focus()
    shown.current = route.page
  }, [page, route.page])

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
          <RerouteBadge />
          <Bell />
        </div>
        <Navigation now={page} />
        <Foot onHelp={showHelp} />
      </header>
      <main ref={main} tabIndex={-1}>
        <Page route={route} />
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  )
}
