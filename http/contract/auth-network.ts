/** The auth service: which addresses may administer, the mail server, the second factor. */
import {
  Enrolment,
  InvalidSecondFactor,
  OneTimeCode,
  RecoveryCode,
  RecoveryCodes,
  SecondFactorAbsent,
  SecondFactorActive,
  SecondFactorRequired,
  SecondFactorState,
} from "#schema/auth-factor.ts"
import {
  IpCheck,
  ManagementIp,
  ManagementIpId,
  ManagementIpNotFound,
  ManagementIpsFull,
  ManagementIpTaken,
  ManagementIpUpdate,
  NewManagementIp,
  WouldLockOut,
} from "#schema/auth-network.ts"
import { SmtpSettings, SmtpSettingsUpdate, SmtpTest, SmtpTestResult } from "#schema/auth-smtp.ts"
import { UserNotFound } from "#schema/auth-users.ts"
import { MasterKeyRotating, MasterKeyState } from "#schema/auth-vault.ts"
import { InvalidCredentials, SignInLocked } from "#schema/auth.ts"
import { Page, UserId } from "#schema/common.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { MasterKeyGiven, MasterKeyNotKept } from "#schema/vault.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { accepted, created, extension, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/auth/api/v1"
const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

/** Anything that may be a password; judged by comparing only. */
const givenPassword = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).pipe(
  Schema.RedactedFromValue,
)

const id = { id: ManagementIpId }
const lockOut = "A change that would lock its author out is refused (409 `would_lock_out`) unless `force` is true."

const ips = [
  HttpApiEndpoint.get("ips", `${base}/settings/ips`, {
    query: pageQuery,
    success: Page(ManagementIp),
    error: problems(InvalidCursor),
  }).annotateMerge(access("user:read")).annotateMerge(
    doc(
      "List management IPs",
      "Networks from which administrative permissions may be used. While no entry is enabled there is no restriction; a call from the machine itself that no proxy speaks for is always let in.",
    ),
  ),
  HttpApiEndpoint.post("addIp", `${base}/settings/ips`, {
    headers: idempotencyKey,
    payload: NewManagementIp,
    success: created(ManagementIp),
    error: problems(ManagementIpTaken, ManagementIpsFull, WouldLockOut),
  }).annotateMerge(access("user:write")).annotateMerge(doc("Register a management IP", lockOut)),
  HttpApiEndpoint.get("ip", `${base}/settings/ips/:id`, {
    params: id,
    success: versioned(ManagementIp),
    error: problems(ManagementIpNotFound),
  }).annotateMerge(access("user:read")).annotateMerge(doc("Get a management IP")),
  HttpApiEndpoint.put("updateIp", `${base}/settings/ips/:id`, {
    params: id,
    headers: ifMatch,
    payload: ManagementIpUpdate,
    success: versioned(ManagementIp),
    error: problems(ManagementIpNotFound, ManagementIpTaken, WouldLockOut, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(doc("Update a management IP", lockOut)),
  HttpApiEndpoint.delete("removeIp", `${base}/settings/ips/:id`, {
    params: id,
    headers: ifMatch,
    query: { force: Schema.optionalKey(Schema.Literals(["true", "false"])) },
    success: HttpApiSchema.NoContent,
    error: problems(ManagementIpNotFound, WouldLockOut, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(doc("Delete a management IP", lockOut)),
  HttpApiEndpoint.get("ipCheck", `${base}/auth/ip-check`, { success: IpCheck })
    .annotateMerge(access("signedIn")).annotateMerge(
      doc(
        "Check the management access IP",
        "Whether the caller could use administrative permissions from where it is, why, and by which entry.",
      ),
    ),
] as const

const factor = `${base}/auth/second-factor`
const proof = {
  password: givenPassword,
  otp: Schema.optionalKey(OneTimeCode),
  recoveryCode: Schema.optionalKey(RecoveryCode),
}

const secondFactor = [
  HttpApiEndpoint.get("secondFactor", factor, { success: SecondFactorState })
    .annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(doc("Get the own second factor")),
  HttpApiEndpoint.post("enrolSecondFactor", `${factor}/enrol`, {
    payload: Schema.Struct({ password: givenPassword }),
    success: Enrolment,
    error: problems(InvalidCredentials, SignInLocked, SecondFactorActive),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(
    doc(
      "Enrol a second factor",
      "A secret for an authenticator app (TOTP, RFC 6238), shown once. It is not asked for before it was confirmed by a code.",
    ),
  ),
  HttpApiEndpoint.post("confirmSecondFactor", `${factor}/confirm`, {
    payload: Schema.Struct({ otp: OneTimeCode }),
    success: RecoveryCodes,
    error: problems(InvalidSecondFactor, SignInLocked, InvalidCredentials, SecondFactorAbsent, SecondFactorActive),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(
    doc("Confirm the second factor", "From now on sign-ins ask for it. Answers ten recovery codes, shown once."),
  ),
  HttpApiEndpoint.post("disableSecondFactor", `${factor}/disable`, {
    payload: Schema.Struct(proof),
    success: HttpApiSchema.NoContent,
    error: problems(InvalidCredentials, SecondFactorRequired, InvalidSecondFactor, SignInLocked, SecondFactorAbsent),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(
    doc("Take off the second factor", "Needs the password, and a code or a recovery code."),
  ),
  HttpApiEndpoint.post("renewRecoveryCodes", `${factor}/recovery-codes`, {
    payload: Schema.Struct(proof),
    success: RecoveryCodes,
    error: problems(InvalidCredentials, SecondFactorRequired, InvalidSecondFactor, SignInLocked, SecondFactorAbsent),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(
    doc("Renew the recovery codes", "The ones of before are worth nothing any more."),
  ),
  HttpApiEndpoint.delete("resetSecondFactor", `${base}/users/:id/second-factor`, {
    params: { id: UserId },
    success: HttpApiSchema.NoContent,
    error: problems(UserNotFound),
  }).annotateMerge(access("user:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Take off the second factor of a user",
      "For somebody who lost it. The own one is taken off with password and code.",
    ),
  ),
] as const

const smtp = [
  HttpApiEndpoint.get("smtpSettings", `${base}/settings/smtp`, { success: versioned(SmtpSettings) })
    .annotateMerge(access("system:read")).annotateMerge(
      doc("Get SMTP settings", "`configured: false` with defaults while none were set."),
    ),
  HttpApiEndpoint.post("updateSmtpSettings", `${base}/settings/smtp`, {
    headers: ifMatch,
    payload: SmtpSettingsUpdate,
    success: versioned(SmtpSettings),
    error: problems(InvalidInput, VersionConflict),
  }).annotateMerge(access("system:write")).annotateMerge(
    doc(
      "Update SMTP settings",
      "Replaces them. A password that is left out stays if server, name and protection do; otherwise it must be given again (422).",
    ),
  ),
  HttpApiEndpoint.post("testSmtp", `${base}/settings/smtp/test`, {
    payload: SmtpTest,
    success: SmtpTestResult,
    error: problems(InvalidInput),
  }).annotateMerge(access("system:write")).annotateMerge(
    doc(
      "Test the SMTP connection",
      "Connects, encrypts and signs in; with `to` it sends a mail. `outcome` tells refused connections, bad certificates, refused logins, rejected mails and silence apart.",
    ),
  ),
] as const

const masterKey = `${base}/settings/master-key`
const vault = [
  HttpApiEndpoint.get("masterKey", masterKey, { success: MasterKeyState })
    .annotateMerge(access("system:read")).annotateMerge(extension).annotateMerge(
      doc("Get the state of the master key", "Which key seals secrets on this node, and how far a rotation has come."),
    ),
  HttpApiEndpoint.post("rotateMasterKey", `${masterKey}/rotate`, {
    headers: idempotencyKey,
    success: accepted(MasterKeyState),
    error: problems(MasterKeyRotating, MasterKeyGiven, MasterKeyNotKept),
  }).annotateMerge(access("system:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Rotate the master key",
      "A new key seals at once; every secret of before is sealed anew in the background, over restarts if need be, then the old key is forgotten. `Location` tells how far it is.",
    ),
  ),
] as const

export class NetworkGroup extends HttpApiGroup.make("network")
  .add(...ips)
  .add(...secondFactor)
  .add(...smtp)
  .add(...vault)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Network",
    description: "Which addresses may administer, the second factor, the mail server, the master key.",
  }))
{}
