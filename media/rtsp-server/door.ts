/** What the connections of players have in common. */
import type { RtspGate } from "../rtsp-server.ts"
import type { Connection } from "./connection.ts"
import type { RtspAccount } from "./credentials.ts"
import type { UdpSockets } from "./lanes.ts"
import type { Lockout } from "./lockout.ts"
import type { Shelf } from "./programme.ts"

export interface Door {
  readonly account: RtspAccount | null
  readonly gate: RtspGate["Service"]
  readonly lockout: Lockout
  readonly shelf: Shelf
  readonly udp: UdpSockets & { readonly ports: readonly [number, number] } | null
  /** Told once the caller was let in; false: there are as many as may be. */
  readonly admitted: (connection: Connection) => boolean
  /** From where a reader's reports come by UDP. */
  readonly listen: (address: string, port: number, connection: Connection) => void
}
