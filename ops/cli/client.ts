/** The typed client of a running node, signed in for the length of one command. */
import { type Client, makeClient } from "#http/contract/client.ts"
import { Effect, Redacted } from "effect"
import { Prompt } from "effect/cli"
import { readSettings } from "../config.ts"
import { failed } from "./failure.ts"

const addressOf = (settings: { readonly url: string; readonly httpHost: string; readonly httpPort: number }): string =>
  settings.url === "" ? `http://${settings.httpHost}:${settings.httpPort}` : settings.url.replace(/\/+$/, "")

/** Signs in, runs, signs out again; every failure becomes a `CommandFailed`. `use` also gets the node's address. */
export const withNode = <A, E, R>(use: (client: Client, address: string) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const settings = yield* readSettings()
    const address = addressOf(settings)
    let token: string | null = null
    const client = yield* makeClient({ baseUrl: address, token: () => token })
    const password = settings.password ?? settings.adminPassword ??
      (yield* Prompt.run(Prompt.Password({ message: `Password of ${settings.user} at ${address}` })))
    const payload = { username: settings.user, password: Redacted.make(Redacted.value(password)), cookie: false }
    const { body } = yield* client.auth.login({ payload })
    token = body.accessToken
    return yield* Effect.ensuring(use(client, address), Effect.ignore(client.auth.logout()))
  }).pipe(Effect.mapError(failed))
