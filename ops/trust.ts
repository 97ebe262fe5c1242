/** Which certificates the programs of this product trust besides the system's authorities, for as long as the process lives. */
import { Effect } from "effect"
import { readFile } from "node:fs/promises"
import { getCACertificates, setDefaultCACertificates } from "node:tls"
import { BadSetting, type Settings } from "./config.ts"
import { ownCertificatePath } from "./host/tls.ts"

/** The certificate of the node on this machine, and what the operator names; a node that never served TLS has none. */
export const trustNode = (settings: Pick<Settings, "ca" | "dataDir" | "tlsCertificate">) =>
  Effect.gen(function*() {
    const read = (path: string) => Effect.promise(() => readFile(path, "utf8").catch(() => null))
    const own = settings.tlsCertificate === "" ? ownCertificatePath(settings.dataDir) : settings.tlsCertificate
    const given = settings.ca === "" ? null : yield* read(settings.ca)
    if (settings.ca !== "" && given === null) {
      return yield* new BadSetting({ variable: "NIGHTJAR_CA", problem: `${settings.ca} cannot be read` })
    }
    const more = [yield* read(own), given].filter((one) => one !== null)
    if (more.length > 0) setDefaultCACertificates([...getCACertificates(), ...more])
  })
