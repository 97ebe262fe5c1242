/** What may be: the decision against a naive model, and what endpoints say of themselves. */
import { type GroupState, reachOfRoles } from "#actors/behaviour/permission-reach.ts"
import { Access } from "#http/contract/access.ts"
import { Api } from "#http/contract/api.ts"
import {
  beyond,
  decide,
  type Grant,
  type Permission,
  permissionDefinitions,
  permissionNames,
  reach,
  type ResourceKey,
  resourceKey,
  type ResourceRef,
  sees,
  unnarrowed,
  type UserPrincipal,
} from "#schema/permission.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Option, Schema } from "effect"
import { HttpApi } from "effect/http-api"
import { principal } from "./http-fixtures.ts"

const few = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** Three cameras with a channel and a recording each: nine things. */
const things: ReadonlyArray<ReadonlyArray<ResourceRef>> = [0, 1, 2].flatMap((n) => {
  const camera = { kind: "camera", id: `a${n}` } as const
  const channel = { kind: "channel", id: `b${n}` } as const
  const recording = { kind: "recording", id: `c${n}` } as const
  return [[camera], [channel, camera], [recording, channel, camera]]
})
const keyOf = (index: number): ResourceKey => resourceKey(things[index % things.length]![0]!)

const World = Schema.Struct({
  /** Each group with the group it is nested in (-1 and itself: none; circles are possible) and what it holds. */
  groups: Schema.Array(
    Schema.Struct({ parent: few(5), nested: Schema.Boolean, holds: Schema.Array(few(8)).check(Schema.isMaxLength(4)) }),
  ).check(Schema.isMaxLength(6)),
  roles: Schema.Array(Schema.Struct({
    permissions: Schema.Array(Schema.Literals([...permissionNames, "*", "later:thing"])).check(Schema.isMaxLength(5)),
    narrowed: Schema.Boolean,
    groups: Schema.Array(few(5)).check(Schema.isMaxLength(3)),
  })).check(Schema.isMaxLength(4)),
  held: Schema.Array(few(3)).check(Schema.isMaxLength(3)),
})
type World = typeof World.Type

const stateOf = ({ groups, roles }: World): GroupState => ({
  groups: groups.map((group, n) => ({
    id: `${n}`,
    parentId: group.nested && group.parent < groups.length ? `${group.parent}` : null,
  })),
  members: groups.flatMap((group, n) =>
    [...new Set(group.holds)].map((index) => ({ groupId: `${n}`, key: keyOf(index) }))
  ),
  roles: roles.flatMap((role, n) =>
    role.narrowed ? [{ role: `${n}`, groupIds: role.groups.filter((id) => id < groups.length).map(String) }] : []
  ),
})

const grantsOf = (world: World, names: ReadonlyArray<number>): ReadonlyArray<Grant> => {
  const reaches = reachOfRoles(stateOf(world))
  return world.roles.flatMap((role, n) =>
    names.includes(n) ?
      [{ role: `${n}`, permissions: role.permissions, resources: reaches.get(`${n}`) ?? "all" as const }] :
      []
  )
}

const userOf = (grants: ReadonlyArray<Grant>): UserPrincipal => ({ ...principal("viewer"), grants })

/** Straight from the words: does a group hold one of these, itself or by a group nested in it? */
const holds = (
  world: World,
  group: number,
  keys: ReadonlyArray<ResourceKey>,
  seen: ReadonlyArray<number> = [],
): boolean => {
  const one = world.groups[group]
  if (one === undefined || seen.includes(group)) return false
  if (one.holds.some((index) => keys.includes(keyOf(index)))) return true
  return world.groups.some((nested, n) =>
    nested.nested && nested.parent === group && holds(world, n, keys, [...seen, group])
  )
}

const model = (world: World, permission: Permission, thing: ReadonlyArray<ResourceRef>): boolean =>
  world.roles.some((role, n) =>
    world.held.includes(n) && role.permissions.some((name) => name === permission || name === "*") &&
    (permissionDefinitions[permission].scope === null || !role.narrowed ||
      role.groups.some((group) => holds(world, group, thing.map(resourceKey))))
  )

describe("a decision about a thing", () => {
  it.prop("is that of the naive model", { world: World }, ({ world }) => {
    const user = userOf(grantsOf(world, world.held))
    for (const permission of permissionNames) {
      for (const thing of things) {
        const decision = decide(user, permission, thing)
        assert.strictEqual(decision.allowed, model(world, permission, thing))
        assert.strictEqual(decision.via.length > 0, decision.allowed)
        assert.notStrictEqual(decision.reason, "")
        const about = thing[0]!.kind === "recording" ? /^recording:/ : /^(camera|recording):/
        if (decision.allowed && about.test(permission)) assert.isTrue(sees(user, thing))
      }
    }
  })

  it.prop("agrees with what lists are filtered by", { world: World }, ({ world }) => {
    const user = userOf(grantsOf(world, world.held))
    for (const permission of permissionNames) {
      const within = reach(user, permission)
      assert.strictEqual(within === "all", unnarrowed(user, permission))
      assert.strictEqual(reach(user, permission), within, "computed once")
      for (const thing of things) {
        const listed = within === "all" || thing.some(({ id, kind }) => within[kind].has(id))
        assert.strictEqual(decide(user, permission, thing).allowed, listed)
      }
    }
  })

  it.prop("never lets anybody give what goes beyond their own", { world: World, given: few(3) }, ({ given, world }) => {
    const user = userOf(grantsOf(world, world.held))
    const [grant] = grantsOf(world, [given])
    if (grant === undefined || beyond(user, grant) !== null) return
    const holder = userOf([grant])
    for (const permission of permissionNames) {
      if (unnarrowed(holder, permission)) assert.isTrue(unnarrowed(user, permission))
      for (const thing of things) {
        if (decide(holder, permission, thing).allowed) assert.isTrue(decide(user, permission, thing).allowed)
      }
    }
  })

  it("says by which roles, or what is missing", () => {
    const [, channel] = things
    const lobby: Grant = { role: "lobby", permissions: ["camera:live"], resources: new Set([keyOf(0)]) }
    const yard: Grant = { role: "yard", permissions: ["camera:live"], resources: new Set([keyOf(3)]) }
    const both = userOf([lobby, yard])
    assert.deepStrictEqual(decide(both, "camera:live", channel), {
      allowed: true,
      reason: "Granted by lobby",
      via: ["lobby"],
    })
    assert.strictEqual(
      decide(both, "camera:live", things[6]).reason,
      "lobby, yard grant camera:live, but no resource group of them contains this camera",
    )
    assert.strictEqual(decide(both, "camera:read", channel).reason, "None of the roles grants camera:read")
    assert.isFalse(decide(both, "camera:live", []).allowed, "a thing that no group can contain")
    assert.isTrue(decide(principal("viewer"), "camera:live", []).allowed)
    assert.isTrue(sees(both, things[0]!))
    assert.isFalse(sees(both, things[2]!), "whoever may watch a camera is not told what is recorded of it")
    assert.isFalse(sees(both, things[6]!))
  })
})

const endpoints = (() => {
  const all: Array<{ readonly name: string; readonly path: string; readonly access: Access["Service"] }> = []
  const statuses = new Map<string, ReadonlySet<number>>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, group, mergedAnnotations }) => {
      const access = Option.getOrThrow(Context.getOption(mergedAnnotations, Access))
      const name = `${group.identifier}.${endpoint.name}`
      all.push({ name, path: endpoint.path, access })
      statuses.set(name, new Set(errors.keys()))
    },
  })
  return { all, statuses }
})()

describe("endpoints", () => {
  it("name every permission there is, and no other", () => {
    const words = ["public", "signedIn", "peer", "capability"]
    const named = new Set(
      endpoints.all.map(({ access }) => access.rule as string).filter((rule) => !words.includes(rule)),
    )
    assert.deepStrictEqual([...named].sort(), [...permissionNames].sort())
  })

  it("say what a permission that can be narrowed is decided about", () => {
    const scoped = endpoints.all.filter(({ access: { rule } }) =>
      rule in permissionDefinitions && permissionDefinitions[rule as Permission].scope !== null
    )
    assert.isAbove(scoped.length, 30)
    const silent = scoped.filter(({ access }) => access.on === null)
    assert.deepStrictEqual(silent.map(({ name }) => name), [])
    for (const { access: { on }, name, path } of scoped) {
      // Somebody who names a thing in the path is about that thing.
      if (on === "service" || on === "everything") assert.notInclude(path, ":", name)
      if (on === null || typeof on === "string") continue
      assert.include(path.split("/"), `:${on.param}`, name)
      assert.isTrue(endpoints.statuses.get(name)?.has(404), `${name} can say that there is no such thing`)
    }
  })
})
