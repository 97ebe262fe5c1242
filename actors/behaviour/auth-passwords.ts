/**
 * Password hashes: argon2id (RFC 9106), off the main thread, kept as PHC strings.
 *
 * Invariants
 * 1. Cost: 19 MiB, 2 passes, 1 lane (OWASP's first choice), about 60 ms of one core. A hash tells its own cost, so a later
 *    release may raise it; hashes of a lower cost are renewed at the next sign-in.
 * 2. At most {@link parallel} hashes are computed at once (memory), at most {@link waiting} wait (time); beyond that, 429.
 * 3. Checking the password of an unknown user costs the same as that of a known one.
 */
import { SignInLocked } from "#schema/auth.ts"
import { Context, Effect, Layer, Redacted, Semaphore } from "effect"
import { argon2, randomBytes, timingSafeEqual } from "node:crypto"

const cost = { memory: 19_456, passes: 2, parallelism: 1 } as const
const saltBytes = 16
const tagBytes = 32
/** 2 times 19 MiB; more would starve the machine of the threads that disks need. */
const parallel = 2
/** 64 times 60 ms on 2 threads is 2 s: well inside the time limit of a request. */
const waiting = 64

interface Cost {
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
}

interface Phc extends Cost {
  readonly salt: Buffer
  readonly tag: Buffer
}

const parse = (hash: string): Phc | null => {
  const match = /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,2}),p=(\d)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(hash)
  if (match === null) return null
  const [, memory, passes, parallelism, salt, tag] = match as unknown as [
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, "base64"),
    tag: Buffer.from(tag, "base64"),
  }
}

const unpadded = (bytes: Buffer) => bytes.toString("base64").replace(/=+$/, "")
const format = (salt: Buffer, tag: Buffer) =>
  `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${unpadded(salt)}$${unpadded(tag)}`

const derive = (password: Redacted.Redacted, salt: Buffer, { memory, parallelism, passes }: Cost, tagLength: number) =>
  Effect.callback<Buffer>((resume) => {
    // What was typed on two keyboards is one password: NFKC (NIST SP 800-63B).
    const message = Redacted.value(password).normalize("NFKC")
    argon2(
      "argon2id",
      { message, nonce: salt, memory, parallelism, passes, tagLength },
      (error, tag) => resume(error === null ? Effect.succeed(tag) : Effect.die(error)),
    )
  })

/** One for all slices: the bounds hold for the node. */
export class Passwords extends Context.Service<Passwords, {
  readonly hash: (password: Redacted.Redacted) => Effect.Effect<string, SignInLocked>
  /** `hash` is `null` for an unknown user: the answer is false, after the same work. */
  readonly verify: (
    password: Redacted.Redacted,
    hash: string | null,
  ) => Effect.Effect<{ readonly matches: boolean; readonly outdated: boolean }, SignInLocked>
}>()("nightjar/actors/Passwords") {}

const leastRandomLength = 20

/** Characters that are hard to mistake for each other, 5 bits each: 100 bits or more. */
export const randomPassword = (leastLength: number): Redacted.Redacted => {
  const alphabet = "abcdefghjkmnpqrstuvwxyz23456789A"
  const length = Math.max(leastRandomLength, leastLength)
  return Redacted.make([...randomBytes(length)].map((byte) => alphabet[byte & 31]).join(""))
}

export const makePasswords: Effect.Effect<Passwords["Service"]> = Effect.gen(function*() {
  const permits = yield* Semaphore.make(parallel)
  let queued = 0
  const bounded = <A>(work: Effect.Effect<A>): Effect.Effect<A, SignInLocked> =>
    Effect.suspend(() => {
      if (queued >= waiting) return Effect.fail(new SignInLocked({ retryAfterSeconds: 2 }))
      queued += 1
      return permits.withPermits(1)(work).pipe(Effect.ensuring(Effect.sync(() => {
        queued -= 1
      })))
    })
  const nobody: Phc = { ...cost, salt: randomBytes(saltBytes), tag: randomBytes(tagBytes) }
  return {
    hash: (password) => {
      const salt = randomBytes(saltBytes)
      return Effect.map(bounded(derive(password, salt, cost, tagBytes)), (tag) => format(salt, tag))
    },
    verify: (password, hash) => {
      const known = hash === null ? null : parse(hash)
      const against = known ?? nobody
      return Effect.map(bounded(derive(password, against.salt, against, against.tag.length)), (tag) => ({
        matches: timingSafeEqual(tag, against.tag) && known !== null,
        outdated: against.memory < cost.memory || against.passes < cost.passes,
      }))
    },
  }
})

export const passwordsLayer = Layer.effect(Passwords, makePasswords)
