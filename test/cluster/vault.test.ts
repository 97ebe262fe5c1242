/** The vault and the identity it keeps: what opens, what does not, and what happens to their files. */
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import { Vault } from "#schema/vault.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { sign, verify } from "node:crypto"
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-vault-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

const vaultOf = (dataFolder: string, masterKey: string | null = null) =>
  Vault.pipe(
    Effect.provide(Vaults.layer({ dataFolder, masterKey: masterKey === null ? null : Redacted.make(masterKey) })),
    Effect.provide(NodeFileSystem.layer),
  )

const identityOf = (dataFolder: string, masterKey: string | null = null) =>
  Identity.NodeIdentity.pipe(
    Effect.provide(
      Identity.layer({ dataFolder }).pipe(
        Layer.provide(Vaults.layer({ dataFolder, masterKey: masterKey === null ? null : Redacted.make(masterKey) })),
      ),
    ),
    Effect.provide(NodeFileSystem.layer),
  )

const keyA = "00".repeat(31) + "0a"
const keyB = Buffer.alloc(32, 7).toString("base64")

describe("vault", () => {
  it.effect("opens what it sealed, whatever the secret; two seals of one secret differ", () =>
    Effect.gen(function*() {
      const vault = yield* vaultOf(yield* temporaryFolder)
      for (const secret of ["", "a", "pässwörd ☃ \u0000 end", "x".repeat(100_000)]) {
        const sealed = yield* vault.seal("camera/1/password", Redacted.make(secret))
        expect(sealed).toMatch(/^nj1\.[0-9a-f]{12}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]+$/)
        expect(Redacted.value(yield* vault.open("camera/1/password", sealed))).toBe(secret)
        expect(yield* vault.seal("camera/1/password", Redacted.make(secret))).not.toBe(sealed)
      }
    }))

  it.effect("refuses another context, any changed character, and what is no seal", () =>
    Effect.gen(function*() {
      const vault = yield* vaultOf(yield* temporaryFolder)
      const sealed = yield* vault.seal("camera/1/password", Redacted.make("secret"))
      expect((yield* Effect.flip(vault.open("camera/2/password", sealed))).reason).toBe("forged")
      for (let n = 0; n < sealed.length; n++) {
        // The last character carries unused bits; base64url readers may ignore them.
        if (n === sealed.length - 1) continue
        const changed = sealed.slice(0, n) + (sealed[n] === "A" ? "B" : "A") + sealed.slice(n + 1)
        expect((yield* Effect.flip(vault.open("camera/1/password", changed)))._tag, `character ${n}`).toBe("VaultError")
      }
      for (const text of ["", "nj1", "secret", `nj2${sealed.slice(3)}`, `${sealed}=`, `${sealed} `]) {
        expect((yield* Effect.flip(vault.open("camera/1/password", text))).reason).toBe("malformed")
      }
    }))

  it.effect("says of a seal under a key it does not have that the key is missing, without its text", () =>
    Effect.gen(function*() {
      const vault = yield* vaultOf(yield* temporaryFolder)
      const error = yield* Effect.flip(vault.open("c", "nj1.000000000000.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA"))
      expect(error.reason).toBe("unknownKey")
      expect(error.message).not.toContain("AAAA")
    }))

  it.effect("keeps its key in a closed file and reads it again", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const sealed = yield* (yield* vaultOf(folder)).seal("c", Redacted.make("secret"))
      const path = join(folder, "master.key")
      expect(statSync(path).mode & 0o777).toBe(0o600)
      const text = readFileSync(path, "utf8")
      chmodSync(path, 0o644)
      expect(Redacted.value(yield* (yield* vaultOf(folder)).open("c", sealed))).toBe("secret")
      expect(statSync(path).mode & 0o777).toBe(0o600)
      expect(readFileSync(path, "utf8")).toBe(text)
    }))

  it.effect("takes a given key in its three spellings, and still opens what the file's key sealed", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const old = yield* (yield* vaultOf(folder)).seal("c", Redacted.make("old"))
      const vault = yield* vaultOf(folder, keyB)
      expect(Redacted.value(yield* vault.open("c", old))).toBe("old")
      const sealed = yield* vault.seal("c", Redacted.make("new"))
      const hex = Buffer.from(keyB, "base64").toString("hex")
      const url = Buffer.from(keyB, "base64").toString("base64url")
      for (const spelling of [hex, url]) {
        expect(Redacted.value(yield* (yield* vaultOf(yield* temporaryFolder, spelling)).open("c", sealed))).toBe("new")
      }
      expect((yield* Effect.flip((yield* vaultOf(folder)).open("c", sealed))).reason).toBe("unknownKey")
    }))

  it.effect("does not start on a key it cannot use, and leaves the file alone", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      writeFileSync(join(folder, "master.key"), "too short\n", { mode: 0o600 })
      const error = yield* Effect.flip(vaultOf(folder))
      expect(error._tag).toBe("MasterKeyUnusable")
      expect(readFileSync(join(folder, "master.key"), "utf8")).toBe("too short\n")
      const given = yield* Effect.flip(vaultOf(yield* temporaryFolder, "not a key"))
      expect(given.message).not.toContain("not a key")
      expect(Vaults.parseMasterKey(keyA)?.length).toBe(32)
      expect(Vaults.parseMasterKey(keyA.slice(1))).toBe(null)
    }))
})

describe("identity", () => {
  it.effect("is made once, with keys that work and are sealed on disk", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const first = yield* identityOf(folder)
      expect(first.nodeId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
      const again = yield* identityOf(folder)
      expect(again.nodeId).toBe(first.nodeId)
      expect(again.signing.publicKey).toBe(first.signing.publicKey)
      expect(again.transfer.publicKey).toBe(first.transfer.publicKey)
      const signature = sign(null, Buffer.from("text"), first.signing.privateKey)
      const publicKey = { key: { kty: "OKP", crv: "Ed25519", x: again.signing.publicKey }, format: "jwk" } as const
      expect(verify(null, Buffer.from("text"), publicKey, signature)).toBe(true)
      expect(again.transfer.privateKey.asymmetricKeyType).toBe("x25519")
      expect(statSync(join(folder, "identity.json")).mode & 0o777).toBe(0o600)
      expect(readFileSync(join(folder, "identity.json"), "utf8"))
        .not.toContain(
          first.signing.privateKey.export({ format: "der", type: "pkcs8" }).toString("base64").slice(0, 20),
        )
      expect(readdirSync(folder).toSorted()).toEqual(["identity.json", "master.key"])
    }))

  it.effect("is not made anew when it is damaged or sealed under another key", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      yield* identityOf(folder, keyA)
      const text = readFileSync(join(folder, "identity.json"), "utf8")
      expect((yield* Effect.flip(identityOf(folder, keyB)))._tag).toBe("IdentityUnusable")
      expect(readFileSync(join(folder, "identity.json"), "utf8")).toBe(text)
      writeFileSync(join(folder, "identity.json"), text.slice(0, 40))
      expect((yield* Effect.flip(identityOf(folder, keyA)))._tag).toBe("IdentityUnusable")
      expect(readFileSync(join(folder, "identity.json"), "utf8")).toBe(text.slice(0, 40))
    }))
})
