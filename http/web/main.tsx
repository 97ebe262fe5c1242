/** The dashboard's entry. */
import { createRoot } from "react-dom/client"
import { App } from "./app.tsx"
import { LiveGate } from "./live.tsx"
import { SessionGate } from "./session.tsx"
import "./style.css"
import "./style-manage.css"
import "./style-wall.css"

createRoot(document.getElementById("root")!).render(
  <SessionGate>
    <LiveGate>
      <App />
    </LiveGate>
  </SessionGate>,
)
