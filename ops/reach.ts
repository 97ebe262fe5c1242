/**
 * Where others reach this node's HTTP, told to the other members of its cluster: the address, and which certificate answers there.
 *
 * Invariants
 * 1. It is told once the server listens, so the port told is the one that answers; a renewed certificate is told at once.
 */
import type { HttpReach, OwnReach } from "#cluster/members.ts"
import type { CertificateSource } from "#http/server-tls.ts"
import { isLoopback } from "#schema/auth-network.ts"
import { Effect, Stream, SubscriptionRef } from "effect"
import { HttpServer } from "effect/http"
import { createHash, X509Certificate } from "node:crypto"
import { networkInterfaces } from "node:os"
import { servesTls, type Settings } from "./config.ts"

/** Addresses of this machine that others could know: no loopback, no link-local ones, which mean nothing without their zone. */
const addressesHere = (): ReadonlyArray<string> =>
  Object.values(networkInterfaces()).flatMap((all) => all ?? [])
    .filter(({ address, internal }) => !internal && !address.startsWith("fe80:"))
    .map(({ address }) => address)

/**
 * What the operator says, otherwise the address the server listens on; where it listens on all of them the cluster's, or else the
 * first that others could know.
 */
export const advertisedUrl = (
  settings: Pick<Settings, "httpAdvertise" | "httpHost" | "clusterHost" | "tls">,
  port: number,
  local: ReadonlyArray<string>,
): string => {
  const { clusterHost, httpAdvertise, httpHost } = settings
  if (httpAdvertise !== "") return httpAdvertise
  const onAll = httpHost === "0.0.0.0" || httpHost === "::"
  const host = !onAll ? httpHost : isLoopback(clusterHost) ? local[0] ?? clusterHost : clusterHost
  return `${servesTls(settings) ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`
}

/** SHA-256 of the SubjectPublicKeyInfo of the first certificate in a PEM text, base64url. */
export const pinOf = (pem: string): string =>
  createHash("sha256").update(new X509Certificate(pem).publicKey.export({ format: "der", type: "spki" })).digest(
    "base64url",
  )

/** Keeps `reach` up to date from the server that listens. */
export const tellReach = Effect.fnUntraced(
  function*(settings: Settings, reach: OwnReach, tls: CertificateSource | null) {
    const { address } = yield* HttpServer.HttpServer
    const port = address._tag === "UnixPathAddress" ? settings.httpPort : address.port
    const told = (tlsPin: string | null): HttpReach => ({
      address: advertisedUrl(settings, port, addressesHere()),
      tlsPin,
    })
    if (tls === null) return yield* SubscriptionRef.set(reach, told(null))
    yield* SubscriptionRef.changes(tls).pipe(
      Stream.runForEach(({ certificate }) => SubscriptionRef.set(reach, told(pinOf(certificate)))),
      Effect.forkScoped,
    )
  },
)
