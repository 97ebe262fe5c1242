/** The entry: the dashboard, or the phone's own page, which needs nothing of it. */
import { createRoot } from "react-dom/client"
import "./style.css"
import "./style-manage.css"
import "./style-wall.css"
import "./style-camera.css"
import "./style-reroute.css"

const root = createRoot(document.getElementById("root")!)

if (location.pathname === "/phone") {
  void import("./pages/phone.tsx").then(({ PhonePage }) => root.render(<PhonePage />))
} else {
  void import("./dashboard.tsx").then(({ Dashboard }) => root.render(<Dashboard />))
}
