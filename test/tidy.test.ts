/** A test about the code: what the linter's globs cannot say of `house.md`'s laws. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { readFileSync, statSync } from "node:fs"
import { basename, dirname, join } from "node:path"

const root = join(import.meta.dirname, "..")
const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 1 << 24,
})
  .split("\n")
  .filter((path) => path !== "" && statSync(join(root, path), { throwIfNoEntry: false })?.isFile() === true)
const code = tracked.filter((path) => /\.(ts|tsx|mjs)$/.test(path))
const text = (path: string) => readFileSync(join(root, path), "utf8")
const under = (folder: string) => code.filter((path) => path.startsWith(`${folder}/`))
const imports = (path: string) =>
  [...text(path).matchAll(/from "([^"]+)"|import\("([^"]+)"\)/g)].map((m) => m[1] ?? m[2] ?? "")
const slices = [
  "auth",
  "permission",
  "license",
  "notification",
  "camera",
  "resource",
  "search",
  "record",
  "replay",
  "system",
  "bff",
  "proxy",
  "analysis",
  "federation",
  "health",
  // What happened is told by every service and followed by several.
  "event",
]
const sliceOf = (path: string) => basename(path).replace(/\.ts$/, "").split("-")[0] ?? ""

/** Files of a floor that belong to no slice, and why they may. */
const shared: Record<string, ReadonlyArray<string>> = {
  "actors/protocol": ["late", "readme", "http"],
  "actors/behaviour": ["late", "http", "observed", "chore"],
  "actors/store": ["answer", "fence", "http"],
  "http/contract": ["api", "errors", "access", "conventions", "http", "client"],
  "http/handlers": ["http"],
}

const none = (found: ReadonlyArray<string>) => assert.deepStrictEqual([...found], [])

describe("the house", () => {
  it("has no unknown entry at the root", () => {
    const allowed =
      /^(\..+|package\.json|package-lock\.json|tsconfig\.json|actors|http|cluster|media|schema|ops|test|README\.md|LICENSE)$/
    none([...new Set(tracked.map((path) => path.split("/")[0] ?? ""))].filter((entry) => !allowed.test(entry)))
  })

  it("names files in kebab-case", () => {
    none(
      code.map((path) => basename(path)).filter((name) =>
        !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)*\.(ts|tsx|mjs)$/.test(name) && !/^\d{4}_[a-z-]+\.ts$/.test(name)
      ),
    )
  })

  it("keeps a slice's files on the floors under the slice's name", () => {
    none(
      Object.entries(shared).flatMap(([floor, extra]) =>
        under(floor)
          .filter((path) => dirname(path) === floor)
          .filter((path) => !slices.includes(sliceOf(path)) && !extra.includes(sliceOf(path)))
      ),
    )
  })

  it("gives every contract group its handlers", () => {
    const handlers = new Set(under("http/handlers").map((path) => basename(path)))
    none(
      under("http/contract").filter((path) =>
        slices.includes(sliceOf(path)) && /HttpApiGroup\s*\.?\s*make/.test(text(path))
      )
        .map((path) => basename(path)).filter((name) => !handlers.has(name)),
    )
  })

  it("lets a behaviour read its own store only", () => {
    none(
      under("actors/behaviour").flatMap((path) =>
        imports(path)
          .filter((name) => name.includes("actors/store/"))
          .filter((name) => sliceOf(name) !== sliceOf(path))
          .map((name) => `${path} imports ${name}`)
      ),
    )
  })

  it("lists every migration", () => {
    const listed = [
      ...text("ops/migrations.ts").matchAll(/"(.+)": \(\) => import\("#(actors\/store\/migrations\/.+)"\)/g),
    ]
    none(listed.filter(([, name, path]) => basename(path!) !== name).map(([line]) => line))
    assert.deepStrictEqual(listed.map(([, , path]) => path), under("actors/store/migrations").toSorted())
  })

  it("names each table in one slice's store", () => {
    const owner = new Map<string, string>()
    const wrong: Array<string> = []
    for (const path of under("actors/store/migrations")) {
      for (const match of text(path).matchAll(/create table (?:if not exists )?(\w+)/gi)) {
        owner.set(match[1]!.toLowerCase(), basename(path).replace(/^\d{4}_|\.ts$/g, ""))
      }
    }
    // The fence is the one thing every store shares: it locks the owner's row for each write.
    const stores = under("actors/store").filter((path) => !path.includes("/migrations/") && !path.endsWith("/fence.ts"))
    for (const path of stores) {
      for (const match of text(path).matchAll(/\b(?:from|into|update|join)\s+(\w+)/gi)) {
        const table = owner.get(match[1]!.toLowerCase())
        if (table !== undefined && sliceOf(table) !== sliceOf(path)) {
          wrong.push(`${path} touches ${match[1]} of ${table}`)
        }
      }
    }
    none(wrong)
  })

  it("keeps files short", () => {
    // A test file is a list; it may be longer than a thought.
    none(code.filter((path) => text(path).split("\n").length > (path.startsWith("test/") ? 600 : 450)))
  })

  it("names the module it uses of Node's platform: the whole of it brings a Redis client, 15 MB of a node's memory", () => {
    none(code.filter((path) => imports(path).includes("@effect/platform-node")))
  })

  it("opens every file of the product with what it is for", () => {
    none(
      code.filter((path) => !/^(#!.*\n)?\s*\/\*\*/.test(text(path))).filter((path) =>
        !path.startsWith("test/fixtures/")
      ),
    )
  })

  it("leaves no mark behind", () => {
    const mark = new RegExp(
      `\\b(${
        ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"].join("|")
      })\\b|@ts-(ignore|nocheck)|\\.(only|todo)\\(`,
    )
    none(code.filter((path) => mark.test(text(path))))
  })

  it("keeps binaries small and machine paths out", () => {
    none(tracked.filter((path) => statSync(join(root, path)).size > 1 << 20))
    const machinePath = new RegExp(`(^|[^a-zA-Z])/(${["wo" + "rk", "fa" + "rm"].join("|")})/`)
    none(tracked.filter((path) => /\.(ts|tsx|mjs|md|json|sh|py)$/.test(path) && machinePath.test(text(path))))
  })

  it("locks the optional packages of every platform, so that npm ci works on each", () => {
    const { packages } = JSON.parse(text("package-lock.json")) as {
      readonly packages: Record<
        string,
        { readonly optionalDependencies?: Record<string, string>; readonly resolved?: string }
      >
    }
    none(
      Object.entries(packages).flatMap(([owner, one]) =>
        Object.keys(one.optionalDependencies ?? {}).filter((name) =>
          packages[`node_modules/${name}`] === undefined && packages[`${owner}/node_modules/${name}`] === undefined
        )
      ),
    )
    none(Object.entries(packages).filter(([, one]) => one.resolved !== undefined).map(([name]) => name))
  })

  it("pins every dependency exactly", () => {
    const manifest = JSON.parse(text("package.json")) as Record<string, Record<string, string>>
    none(
      ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) => Object.values(manifest[kind] ?? {}))
        .filter((version) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)),
    )
  })
})
