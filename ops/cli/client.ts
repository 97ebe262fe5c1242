/** The typed client of a running node, signed in for the length of one command. */
import { type Client, makeClient } from "#http/contract/client.ts"
import { Effect, Redacted, Schedule } from "effect"
import { Prompt } from "effect/cli"
import { localUrl, readSettings, type Settings } from "../config.ts"
import { trustNode } from "../trust.ts"
import { failed } from "./failure.ts"

const addressOf = (settings: Settings): string =>
  settings.url === "" ? localUrl(settings, settings.httpPort) : settings.url.replace(/\/+$/, "")

const signingIn = (
  client: Client,
  payload: Parameters<Client["auth"]["login"]>[0]["payload"],
  keep: (token: string) => void,
) =>
  Effect.map(
    Effect.retry(client.auth.login({ payload }), {
      ...databaseSoon,
      while: (error) => error._tag === "DependencyUnavailable",
    }),
    ({ body }) => keep(body.accessToken),
  )

/** A node that has just started has its database in a moment. */
const databaseSoon = { schedule: Schedule.spaced("500 millis"), times: 60 }

/**
 * Signs in, runs, signs out again; every failure becomes a `CommandFailed`. `use` also gets the node's address, and how to sign in
 * again: an access token is good for some minutes only.
 */
export const withNode = <A, E, R>(
  use: (client: Client, address: string, signIn: ReturnType<typeof signingIn>) => Effect.Effect<A, E, R>,
) =>
  Effect.gen(function*() {
    const settings = yield* readSettings()
    const address = addressOf(settings)
    if (address.startsWith("https:")) yield* trustNode(settings)
    let token: string | null = null
    const client = yield* makeClient({ baseUrl: address, token: () => token })
    const password = settings.password ?? settings.adminPassword ??
      (yield* Prompt.run(Prompt.Password({ message: `Password of ${settings.user} at ${address}` })))
    const payload = { username: settings.user, password: Redacted.make(Redacted.value(password)), cookie: false }
    const signIn = signingIn(client, payload, (given) => void (token = given))
    yield* signIn
    return yield* Effect.ensuring(use(client, address, signIn), Effect.ignore(client.auth.logout()))
  }).pipe(Effect.mapError(failed))
