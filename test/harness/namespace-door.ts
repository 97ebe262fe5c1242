/**
 * Passes connections on, within the network namespace it is started in: `node namespace-door.ts <listen> <target>`, where `listen` is
 * the path of a socket or `host:port`, and `target` is `host:port`. A socket's path is reached from every namespace, so that a test
 * talks to a node whose network it has cut. Prints a line when it listens; ends with its standard input.
 */
import { connect, createServer } from "node:net"

const [listen = "", target = ""] = process.argv.slice(2)
const at = (address: string) => {
  const colon = address.lastIndexOf(":")
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }
}

const server = createServer((from) => {
  const to = connect(at(target))
  for (const [one, other] of [[from, to], [to, from]] as const) {
    one.on("error", () => other.destroy())
    one.on("close", () => other.destroy())
    one.pipe(other)
  }
})
server.listen(listen.startsWith("/") ? { path: listen } : at(listen), () => process.stdout.write("listening\n"))
process.stdin.resume()
process.stdin.on("end", () => process.exit(0))
