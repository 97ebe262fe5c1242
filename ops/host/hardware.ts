/**
 * What tells this machine from others: the operating system's machine id, the main board's UUID, the addresses of network
 * interfaces with hardware. Linux; elsewhere the interfaces alone.
 */
import { HardwareFacts } from "#actors/protocol/license.ts"
import { Effect, Layer } from "effect"
import { readdir, readFile } from "node:fs/promises"
import { networkInterfaces } from "node:os"

const why = (error: unknown): string => {
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  return code === "EACCES" ? "not readable by this account" : code === "ENOENT" ? "not there" : "not readable"
}

/** One line of a file. */
const line = (path: string, valid: RegExp) =>
  Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.map((text) => text.trim().toLowerCase()),
    Effect.map((text) =>
      valid.test(text) && !/^[0-]+$|^[f-]+$/.test(text) ?
        { values: [text], detail: "1 value" } :
        { values: [], detail: "not set" }
    ),
    Effect.catch((error) => Effect.succeed({ values: [] as ReadonlyArray<string>, detail: why(error.cause) })),
  )

const address = /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/
/** IEEE 802: the second bit of the first byte marks an address that software made up. */
const madeUp = (mac: string) => (Number.parseInt(mac.slice(0, 2), 16) & 2) !== 0 || mac === "00:00:00:00:00:00"

/** Interfaces with a device behind them; virtual ones come and go. */
const linuxInterfaces = Effect.tryPromise(async () => {
  const names = await readdir("/sys/class/net")
  const found = await Promise.all(names.map(async (name) => {
    try {
      await readdir(`/sys/class/net/${name}/device`)
      return (await readFile(`/sys/class/net/${name}/address`, "utf8")).trim().toLowerCase()
    } catch {
      return ""
    }
  }))
  return found
})

const otherInterfaces = Effect.sync(() =>
  Object.values(networkInterfaces()).flatMap((all) => all ?? []).filter(({ internal }) => !internal)
    .map(({ mac }) => mac.toLowerCase())
)

const network = (process.platform === "linux" ? linuxInterfaces : otherInterfaces).pipe(
  Effect.orElseSucceed((): ReadonlyArray<string> => []),
  Effect.map((all) => {
    const values = [...new Set(all.filter((mac) => address.test(mac) && !madeUp(mac)))]
    const detail = values.length === 0 ? "no interface with hardware of its own" : `${values.length} interfaces`
    return { values, detail: values.length === 1 ? "1 value" : detail }
  }),
)

export const layer = Layer.succeed(HardwareFacts, {
  read: Effect.map(
    Effect.all([
      line("/etc/machine-id", /^[0-9a-f]{32}$/),
      line("/sys/class/dmi/id/product_uuid", /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
      network,
    ]),
    ([machine, board, interfaces]) => [
      { name: "machine" as const, ...machine },
      { name: "board" as const, ...board },
      { name: "network" as const, ...interfaces },
    ],
  ),
})
