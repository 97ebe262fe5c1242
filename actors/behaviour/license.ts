/**
 * The service `License`: shows, installs, checks and gives back the licence of the cluster.
 *
 * Invariants
 * 1. Nothing is installed that the vendor did not sign, that is of another machine, that is over, or that was given back here.
 * 2. A call of the licence server that fails changes nothing but the note of the failure; a refusal neither: only a signed
 *    statement suspends or revokes.
 * 3. A lease is confirmed in good time before its confirmation is due: {@link confirmEveryMs} or a quarter of `verifyDays`, whichever
 *    is shorter; after a failure again in {@link firstRetryMs}, doubled up to {@link longestRetryMs}, with jitter.
 */
import { Presence } from "#actors/protocol/auth-presence.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { License } from "#actors/protocol/license.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { EpochMs, type PageRequest, Uuid7 } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { clockToleranceMs, confirmBy, judge, matchHardware, neededSources } from "#schema/license-state.ts"
import {
  LicenseAbsent,
  LicenseKeyPresent,
  type LicenseMode,
  LicenseRejected,
  type LicenseStatus,
  type LicenseView,
} from "#schema/license.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, Random, Redacted, Schedule, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { openLicense, openStatement } from "./license-keys.ts"
import { type Known, LicenseKnown, type LicenseOptions } from "./license-known.ts"
import { makePapers } from "./license-papers.ts"
import { makeLicenseServer } from "./license-server.ts"

const dayMs = 86_400_000
const confirmEveryMs = dayMs
const firstRetryMs = 300_000
const longestRetryMs = 6 * 3_600_000
const keyPlace = "license/key"

const sessionCursor = cursorOf("license-sessions", Schema.Struct({ since: EpochMs, sessionId: Uuid7 }))

const limitsOf = (known: Known) => {
  const { installed } = known.facts
  if (installed?.genuine !== true) return null
  const { channels, features, sessions } = installed.claims
  return { channels, features, sessions }
}

/** What is shown. */
const showing = (usage: Effect.Effect<LicenseStatus["usage"], never>) => {
  const statusOf = Effect.fnUntraced(function*(known: Known) {
    const nowMs = yield* Clock.currentTimeMillis
    const judged = judge(known.facts, nowMs)
    const installed = known.facts.installed?.genuine === true ? known.facts.installed : null
    const due = installed === null ? null : confirmBy(installed)
    const { failure } = known.kept
    return {
      state: judged.state,
      reason: judged.reason,
      restricted: judged.restricted,
      daysLeft: judged.daysLeft,
      graceUntil: judged.graceUntilMs,
      limits: limitsOf(known),
      usage: yield* usage,
      clock: {
        now: nowMs,
        highWater: known.facts.highWaterMs,
        setBack: judged.setBack,
        toleranceSeconds: clockToleranceMs / 1000,
      },
      hardware: installed?.hardware ?? null,
      cloud: due === null ? null : {
        confirmedAt: installed!.confirmedAtMs,
        confirmBy: due,
        lastFailure: failure === null ? null : { at: failure.atMs, message: failure.message },
      },
    } satisfies LicenseStatus
  })
  const viewOf = Effect.fnUntraced(
    function*(known: Known, vendorKeys: ReadonlyArray<string>, serverConfigured: boolean) {
      const { installed } = known.facts
      const limits = limitsOf(known)
      return {
        license: installed?.genuine !== true || limits === null ? null : {
          licenseId: installed.claims.licenseId,
          customer: installed.claims.customer,
          mode: installed.mode,
          limits,
          issuedAt: installed.claims.issuedAt,
          notBefore: installed.claims.notBefore,
          notAfter: installed.claims.notAfter,
          graceDays: installed.claims.graceDays,
          verifyDays: installed.claims.verifyDays,
          hardwareId: installed.claims.hardwareId,
          activatedAt: known.kept.installed?.activatedAtMs ?? 0,
        },
        keyHint: known.kept.key?.hint ?? null,
        vendorKeys,
        serverConfigured,
        status: yield* statusOf(known),
      } satisfies LicenseView
    },
  )
  return { statusOf, viewOf }
}

type Store = LicenseKnown["Service"]

/** Installs what the vendor signed. */
const installing = (known: Store) =>
  Effect.fnUntraced(
    function*(text: string, mode: LicenseMode, key: { readonly sealed: string; readonly hint: string } | null) {
      const nowMs = yield* Clock.currentTimeMillis
      const claims = yield* openLicense(text, known.keys())
      const hardware = yield* known.seeHardware
      if (claims.hardwareId !== null) {
        // The machine at hand; one of another node counts once the licence is installed there.
        const match = matchHardware(claims.hardwareId, hardware.hardwareId)
        if (!match.matches) {
          return yield* new LicenseRejected({
            reason: "otherHardware",
            detail:
              `it is bound to another machine: ${match.matching} of ${match.named} parts are the same, ${match.needed} are needed`,
          })
        }
      }
      if (claims.notAfter !== null && nowMs >= claims.notAfter + claims.graceDays * dayMs) {
        return yield* new LicenseRejected({
          reason: "over",
          detail: `it ended on ${new Date(claims.notAfter).toISOString()}`,
        })
      }
      if (yield* known.store.wasReleased(claims.licenseId)) {
        return yield* new LicenseRejected({
          reason: "releasedBefore",
          detail: "it was given back by this installation; the vendor issues a new one",
        })
      }
      yield* known.store.install({ text: text.trim(), licenseId: claims.licenseId, mode, key, nowMs })
      if (claims.resetClock === true) yield* known.resetTime(claims.issuedAt)
      return yield* known.read
    },
  )

const hintOf = (key: Redacted.Redacted) => Redacted.value(key).slice(-4)

const make = Effect.fnUntraced(function*(options: LicenseOptions) {
  const known = yield* LicenseKnown
  const cameras = yield* Cameras
  const presence = yield* Presence
  const gate = yield* FailoverGate
  const vault = yield* Vault
  const papers = yield* makePapers
  const { nodeId } = yield* NodeIdentity
  const server = makeLicenseServer(options.server)
  const install = installing(known)
  const channels = Effect.map(cameras.count(), (now) => now.channels)
  // A count that cannot be had now must not hide the licence.
  const usage = Effect.all({
    channels: Effect.orElseSucceed(channels, () => null),
    sessions: Effect.orElseSucceed(presence.count(), () => null),
  })
  const { statusOf, viewOf } = showing(usage)
  const view = (now: Known) => viewOf(now, [...known.keys().keys()], options.server !== null)
  const request = Effect.gen(function*() {
    return yield* papers.request(known.hardware().hardwareId, yield* channels)
  })

  const noted = <A, E extends { readonly message: string }, R>(work: Effect.Effect<A, E, R>) =>
    Effect.tapError(
      work,
      (error) =>
        Effect.flatMap(Clock.currentTimeMillis, (nowMs) => Effect.ignore(known.store.fail(error.message, nowMs))),
    )

  const openKey = (sealed: string) => Effect.orDie(vault.open(keyPlace, sealed))

  /** Asks for the lease of a key that waits. */
  const lease = Effect.fnUntraced(function*(key: Redacted.Redacted, sealed: string) {
    const text = yield* server.lease(key, yield* request)
    if (text === null) return false
    yield* install(text, "key", { sealed, hint: hintOf(key) })
    return true
  })

  /** Asks whether the lease still holds. */
  const confirm = Effect.fnUntraced(function*(licenseId: string, sealed: string) {
    const key = yield* openKey(sealed)
    const nonce = randomBytes(16).toString("base64url")
    const hardwareId = known.hardware().hardwareId
    const { license, statement } = yield* server.verify({ licenseId, key, hardwareId }, nonce)
    const said = yield* openStatement(statement, known.keys())
    if (said.nonce !== nonce || said.licenseId !== licenseId) {
      return yield* new LicenseRejected({ reason: "forged", detail: "the statement answers another question" })
    }
    if (license !== undefined && said.state === "active") {
      yield* install(license, "key", { sealed, hint: hintOf(key) })
    }
    yield* known.store.confirm(said.state, yield* Clock.currentTimeMillis)
    // A clock that was ahead once must not restrict for ever: the vendor's time is signed.
    const { facts } = yield* known.read
    const nowMs = yield* Clock.currentTimeMillis
    if (facts.highWaterMs - nowMs > clockToleranceMs && Math.abs(said.time - nowMs) <= clockToleranceMs) {
      yield* known.resetTime(said.time)
    }
  })

  /** One round with the server, whatever is due; fails where there is nothing to ask. */
  const cloud = Effect.gen(function*() {
    const { facts, kept } = yield* known.read
    if (kept.key === null) return yield* new LicenseAbsent({ wanted: "lease" })
    if (facts.installed === null) {
      yield* lease(yield* openKey(kept.key.sealed), kept.key.sealed)
    } else if (facts.installed.genuine && kept.installed?.mode === "key") {
      yield* confirm(facts.installed.claims.licenseId, kept.key.sealed)
    } else {
      return yield* new LicenseAbsent({ wanted: "lease" })
    }
  }).pipe((work) => known.alone(noted(work)))

  const service = License.of({
    view: () => Effect.flatMap(known.read, view),
    status: () => Effect.flatMap(known.read, statusOf),
    hardware: Effect.fnUntraced(function*() {
      const { hardwareId, named, sources } = yield* known.seeHardware
      return { nodeId, hardwareId, sources, rule: { needed: neededSources(named), named } }
    }),
    request: () => request,
    activate: Effect.fnUntraced(function*(activation) {
      const online = "activationCode" in activation
      const text = online ? yield* server.activate(activation.activationCode, yield* request) : activation.license
      return yield* view(yield* install(text, online ? "online" : "offline", null))
    }, known.alone),
    deactivate: Effect.fnUntraced(function*() {
      const { facts, kept } = yield* known.read
      if (kept.installed === null) return yield* new LicenseAbsent({ wanted: "license" })
      yield* gate.mayReleaseLicense
      const licenseId = facts.installed?.genuine === true ? facts.installed.claims.licenseId : null
      const receipt = yield* papers.receipt(known.hardware().hardwareId, licenseId)
      yield* known.store.release(receipt.releasedAt)
      yield* known.read
      return receipt
    }, known.alone),
    registerKey: Effect.fnUntraced(function*(key) {
      const { kept } = yield* known.read
      if (kept.key !== null) return yield* new LicenseKeyPresent()
      const sealed = yield* vault.seal(keyPlace, key)
      if (!(yield* lease(key, sealed))) yield* known.store.keepKey({ sealed, hint: hintOf(key) })
      return yield* view(yield* known.read)
    }, known.alone),
    releaseKey: Effect.fnUntraced(function*() {
      const { facts, kept } = yield* known.read
      if (kept.key === null) return yield* new LicenseAbsent({ wanted: "key" })
      yield* gate.mayReleaseLicense
      const licenseId = facts.installed?.genuine === true ? facts.installed.claims.licenseId : null
      const receipt = yield* papers.receipt(known.hardware().hardwareId, licenseId)
      yield* server.release(yield* openKey(kept.key.sealed), receipt)
      yield* known.store.release(receipt.releasedAt)
      yield* known.read
      return receipt
    }, known.alone),
    verifyNow: Effect.fnUntraced(function*() {
      yield* known.readKeys
      yield* known.seeHardware
      yield* known.note
      const now = yield* known.read
      if (now.kept.installed === null) return yield* new LicenseAbsent({ wanted: "license" })
      return yield* statusOf(now)
    }),
    cloudVerify: () => Effect.andThen(cloud, Effect.flatMap(known.read, statusOf)),
    sessions: Effect.fnUntraced(function*(page: PageRequest) {
      const after = yield* sessionCursor.decode(page.cursor)
      const rows = yield* presence.list(page.limit + 1, after)
      const cut = pageFrom({
        rows,
        limit: page.limit,
        cursor: sessionCursor,
        position: ({ sessionId, since }) => ({ since, sessionId }),
        item: (row) => row,
      })
      const now = yield* known.read
      return { ...cut, inUse: yield* presence.count(), limit: limitsOf(now)?.sessions ?? null }
    }),
  })
  return { service, known, cloud }
})

/** Milliseconds until the server is asked next. */
const pause = Effect.fnUntraced(function*(known: Store, failures: number) {
  const installed = known.last()?.facts.installed
  const days = installed?.genuine === true ? installed.claims.verifyDays : null
  const calm = installed === null || installed === undefined ?
    firstRetryMs :
    Math.min(confirmEveryMs, days === null ? confirmEveryMs : days * dayMs / 4)
  const wait = failures === 0 ? calm : Math.min(longestRetryMs, firstRetryMs * 2 ** (failures - 1))
  return wait * (0.8 + 0.4 * (yield* Random.next))
})

export const layer = (options: LicenseOptions) =>
  Layer.effect(
    License,
    Effect.gen(function*() {
      const { cloud, known, service } = yield* make(options)
      let failures = 0
      let nextMs = 0
      const round = Effect.gen(function*() {
        const nowMs = yield* Clock.currentTimeMillis
        if (nowMs < nextMs || known.last()?.kept.key === null) return
        failures = yield* cloud.pipe(
          Effect.as(0),
          // Without a lease there is nothing to ask, so nothing failed.
          Effect.catchTag("LicenseAbsent", () => Effect.succeed(0)),
          Effect.catchCause((cause) =>
            Effect.as(Effect.logWarning("The licence server did not confirm the licence", cause), failures + 1)
          ),
        )
        nextMs = nowMs + (yield* pause(known, failures))
      })
      yield* Effect.forkScoped(Effect.repeat(round, Schedule.spaced("1 minute")))
      return service
    }),
  )
