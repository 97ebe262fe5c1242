/**
 * The certificate that the node serves HTTPS with: the administrator's, or one of its own.
 *
 * Invariants
 * 1. Its own is made at the first start, good for {@link daysGood} days, renewed {@link renewDays} days before its end and when it
 *    lacks the address that the node was told to listen on; the private key stands in a file that only the node's account may
 *    read. File and key are one, so they never mismatch.
 * 2. The administrator's is read again when its files change, without a restart. What cannot be used is told and left aside:
 *    the one in use stays.
 */
import { Clock, Duration, Effect, FileSystem, Redacted, Schedule, Schema, type Scope, SubscriptionRef } from "effect"
import { isIP } from "node:net"
import { hostname, networkInterfaces } from "node:os"
import { examineCertificate, type KeyPairFiles, makeCertificate } from "./certificate.ts"

/** There is no certificate to serve with; the node must not start in clear text instead. */
export class CertificateUnusable extends Schema.TaggedError<CertificateUnusable>()("CertificateUnusable", {
  path: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The certificate in ${this.path} cannot be used: ${this.detail}`
  }
}

export interface TlsOptions {
  readonly dataFolder: string
  /** What the node listens on. */
  readonly host: string
  /** PEM files of the administrator; `null` for one of its own. */
  readonly files: { readonly certificate: string; readonly privateKey: string } | null
  /** How often they are looked at; a renewal by an ACME client is noticed within this. 10 seconds if left out. */
  readonly lookEvery?: Duration.Input
}

/** Browsers take no more than 398. */
const daysGood = 397
const renewDays = 30
const dayMs = 86_400_000
/** More addresses than that stand on no machine that records. */
const mostAddresses = 64

/** Where others find the certificate of the node's own (without its key). */
export const ownCertificatePath = (dataFolder: string): string => `${dataFolder}/tls/certificate.pem`
const ownPairPath = (dataFolder: string): string => `${dataFolder}/tls/own.pem`

const split = (pem: string): KeyPairFiles => {
  const blocks = pem.match(/-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----\n?/g) ?? []
  return {
    certificate: blocks.filter((block) => block.includes("BEGIN CERTIFICATE")).join(""),
    privateKey: blocks.filter((block) => block.includes("PRIVATE KEY")).join(""),
  }
}

const served = ({ certificate, privateKey }: KeyPairFiles) => ({
  certificate,
  privateKey: Redacted.make(privateKey),
  fingerprint: examineCertificate({ certificate, privateKey }).fingerprint,
})

const localAddresses = (): ReadonlyArray<string> =>
  Object.values(networkInterfaces()).flatMap((all) => all ?? [])
    .map(({ address }) => address)
    // Link-local IPv6 means nothing without its zone.
    .filter((address) => !address.startsWith("fe80:"))
    .slice(0, mostAddresses)

const dnsName =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/

const anyAddress = new Set(["0.0.0.0", "::"])

const wanted = (host: string) => {
  const named = isIP(host) === 0 ? [host] : []
  const numbered = isIP(host) === 0 || anyAddress.has(host) ? [] : [host]
  return {
    commonName: hostname(),
    names: [...new Set([hostname(), "localhost", ...named])].filter((name) => dnsName.test(name)),
    addresses: [...new Set(["127.0.0.1", "::1", ...numbered, ...localAddresses()])],
  }
}

const reasonOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

/** Writes a file that appears whole or not at all, readable as `mode` says. */
const put = Effect.fnUntraced(function*(path: string, text: string, mode: number) {
  const fs = yield* FileSystem.FileSystem
  const draft = `${path}.new`
  yield* fs.remove(draft, { force: true })
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(draft, { flag: "wx", mode })
    yield* file.writeAll(Buffer.from(text, "utf8"))
    yield* file.sync
  }))
  yield* fs.rename(draft, path)
})

/** The kept pair, or a new one where there is none that is good. */
const own = Effect.fnUntraced(function*({ dataFolder, host }: TlsOptions) {
  const fs = yield* FileSystem.FileSystem
  const path = ownPairPath(dataFolder)
  const nowMs = yield* Clock.currentTimeMillis
  const kept = yield* Effect.option(Effect.map(fs.readFileString(path), split))
  if (kept._tag === "Some") {
    const good = yield* Effect.option(Effect.try({
      try: () => {
        const { names, notAfterMs } = examineCertificate(kept.value)
        const lasts = notAfterMs > nowMs + renewDays * dayMs
        return lasts && (anyAddress.has(host) || names(host))
      },
      catch: reasonOf,
    }))
    if (good._tag === "Some" && good.value) return kept.value
  }
  yield* fs.makeDirectory(`${dataFolder}/tls`, { recursive: true, mode: 0o700 })
  // An hour back: clocks of browsers may be behind.
  const times = { notBeforeMs: nowMs - 3_600_000, notAfterMs: nowMs + daysGood * dayMs }
  const pair = yield* makeCertificate({ ...wanted(host), ...times })
  yield* put(path, pair.certificate + pair.privateKey, 0o600)
  yield* put(ownCertificatePath(dataFolder), pair.certificate, 0o644)
  return pair
})

const given = Effect.fnUntraced(function*(files: { readonly certificate: string; readonly privateKey: string }) {
  const fs = yield* FileSystem.FileSystem
  return {
    certificate: yield* fs.readFileString(files.certificate),
    privateKey: yield* fs.readFileString(files.privateKey),
  }
})

/** The certificate in use, kept up to date until the scope closes. */
export const servingCertificate = (options: TlsOptions) =>
  Effect.gen(function*() {
    const path = options.files?.certificate ?? ownPairPath(options.dataFolder)
    const read = (options.files === null ? own(options) : given(options.files)).pipe(
      Effect.flatMap((pair) => Effect.try({ try: () => served(pair), catch: reasonOf })),
      Effect.mapError((error) => new CertificateUnusable({ path, detail: reasonOf(error) })),
    )
    const current = yield* SubscriptionRef.make(yield* read)
    const look = Effect.gen(function*() {
      const next = yield* read
      const before = yield* SubscriptionRef.get(current)
      if (next.fingerprint === before.fingerprint) return
      yield* SubscriptionRef.set(current, next)
      yield* Effect.logInfo(`A new certificate is served, SHA-256 ${next.fingerprint}`)
    })
    const lookEvery = options.lookEvery ?? "10 seconds"
    let told = ""
    const quietly = Effect.matchEffect(look, {
      onSuccess: () => Effect.void,
      onFailure: ({ message }) => {
        if (message === told) return Effect.void
        told = message
        return Effect.logWarning(`${message}; the one before stays in use`)
      },
    })
    yield* Effect.forkScoped(
      Effect.delay(Effect.repeat(quietly, Schedule.spaced(lookEvery)), Duration.fromInputUnsafe(lookEvery)),
    )
    return current
  }) satisfies Effect.Effect<unknown, CertificateUnusable, FileSystem.FileSystem | Scope.Scope>
