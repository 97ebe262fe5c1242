/** A PostgreSQL within the network namespace it is started in: `node namespace-postgres.ts <folder>`. Prints its address; ends with its standard input. */
import { startPostgres } from "./event-maker.ts"

const { end, url } = await startPostgres(process.argv[2] ?? "")
process.stdout.write(`${url}\n`)
process.stdin.resume()
process.stdin.on("end", () => void end().then(() => process.exit(0)))
