/**
 * What footage coming home is measured by: the same files over TLS on this machine, from one process to another, each synced. Nothing
 * is looked at on the way: what a copy by `scp` does, in the same language.
 *
 * As a program of its own: `tls-copy.ts receive <folder>` tells its port, `tls-copy.ts send <port> <folder>` its sums.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { createReadStream, createWriteStream, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { pipeline } from "node:stream/promises"
import { connect, createServer } from "node:tls"

export interface Copied {
  readonly bytesPerSecond: number
  /** CPU seconds of sender and receiver together. */
  readonly cpuPerGib: number
}

interface Told {
  readonly bytes: number
  readonly ms: number
  readonly cpu: number
}

const ciphers = "TLS_AES_256_GCM_SHA384"
const keyName = "key.pem"
const certificateName = "certificate.pem"
const chunkBytes = 512 * 1024

const cpuSince = (before: NodeJS.CpuUsage): number => {
  const { system, user } = process.cpuUsage(before)
  return (system + user) / 1e6
}

/** Writes what comes to a file, one connection after another; says after each that it is on the disk, and its own work. */
const receive = async (folder: string): Promise<void> => {
  const [key, cert] = [keyName, certificateName].map((name) => readFileSync(path.join(folder, name)))
  let before = process.cpuUsage()
  const server = createServer({ key, cert, ciphers, minVersion: "TLSv1.3", allowHalfOpen: true }, async (socket) => {
    await pipeline(socket, createWriteStream(path.join(folder, "copy.bin"), { flush: true }), { end: true })
    socket.end(JSON.stringify({ cpu: cpuSince(before) }))
    before = process.cpuUsage()
  })
  server.listen(0, "127.0.0.1", () => console.log((server.address() as { readonly port: number }).port))
  process.stdin.resume().on("end", () => process.exit(0))
}

const send = async (port: number, folder: string): Promise<void> => {
  const told = { bytes: 0, ms: 0, cpu: 0 }
  for (const name of readdirSync(folder).filter((one) => one.endsWith(".mp4"))) {
    const [begun, before] = [performance.now(), process.cpuUsage()]
    // The certificate was made for this copy alone; whom it is from does not matter here.
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ciphers })
    await once(socket, "secureConnect")
    const source = createReadStream(path.join(folder, name), { highWaterMark: chunkBytes })
    const answer = (async () => {
      let text = ""
      for await (const part of socket) text += String(part)
      return JSON.parse(text) as { readonly cpu: number }
    })()
    for await (const part of source) if (!socket.write(part)) await once(socket, "drain")
    socket.end()
    told.cpu += (await answer).cpu + cpuSince(before)
    told.ms += performance.now() - begun
    told.bytes += source.bytesRead
  }
  console.log(JSON.stringify(told))
}

const lineOf = async (child: ReturnType<typeof spawn>): Promise<string> => {
  for await (const line of createInterface({ input: child.stdout! })) return line
  throw new Error("a copying process ended without a word")
}

/** Copies the files of a folder; needs the space of one of them in `scratch`. */
export const tlsCopy = async (from: string, scratch: string): Promise<Copied> => {
  const folder = mkdtempSync(path.join(scratch, "copy-"))
  const made = ["-keyout", path.join(folder, keyName), "-out", path.join(folder, certificateName), "-days", "1"]
  const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=copy"]
  execFileSync("openssl", ["req", ...kind, ...made], { stdio: "pipe" })
  const run = (...words: ReadonlyArray<string>) =>
    spawn(process.execPath, [import.meta.filename, ...words], { stdio: ["pipe", "pipe", "inherit"] })
  const receiver = run("receive", folder)
  try {
    const sender = run("send", await lineOf(receiver), from)
    const told = JSON.parse(await lineOf(sender)) as Told
    return { bytesPerSecond: told.bytes * 1000 / told.ms, cpuPerGib: told.cpu * 2 ** 30 / told.bytes }
  } finally {
    receiver.stdin.end()
    rmSync(folder, { recursive: true })
  }
}

if (import.meta.main) {
  const [verb, where = "", folder = ""] = process.argv.slice(2)
  await (verb === "receive" ? receive(where) : send(Number(where), folder))
}
