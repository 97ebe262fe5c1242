/** The dashboard behind its sign-in. */
import { App } from "./app.tsx"
import { LiveGate } from "./live.tsx"
import { SessionGate } from "./session.tsx"

export const Dashboard = () => (
  <SessionGate>
    <LiveGate>
      <App />
    </LiveGate>
  </SessionGate>
)
