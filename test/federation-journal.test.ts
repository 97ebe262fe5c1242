/** Changes of a guardian and of the home node, merged: none is lost without being shown, and the order of telling changes nothing. */
import { type Conflict, conflictKey, type HomeThing, type Merged, mergeJournal, withJournal } from "#cluster/journal.ts"
import { CameraId, ChannelId } from "#schema/common.ts"
import {
  camerasOf,
  differences,
  type Fields,
  type JournalEntry,
  recordingsOf,
  recordingThings,
  type Thing,
  thingKey,
  thingsOf,
} from "#schema/federation-journal.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const uuid = (n: number) => `0190163d-8694-7395-8ad4-${String(n).padStart(12, "0")}`
const [cameraId, channelId] = [CameraId.make(uuid(1)), ChannelId.make(uuid(2))]
const [main, sub, recordingId] = [uuid(3), uuid(4), uuid(5)]

const stream = (id: string, role: string, fields: Fields = {}): Thing => ({
  kind: "stream",
  id,
  cameraId,
  channelId,
  fields: {
    role,
    sourceUrl: `rtsp://camera.example/${role}`,
    transport: "tcp",
    enabled: true,
    onDemand: false,
    username: null,
    password: null,
    ...fields,
  },
})

const base: ReadonlyArray<Thing> = [
  {
    kind: "camera",
    id: cameraId,
    cameraId,
    channelId: null,
    fields: {
      homeNodeId: uuid(9),
      name: "Front door",
      description: "",
      driver: "rtsp",
      host: null,
      port: null,
      enabled: true,
      username: "admin",
      password: "first",
      tags: ["door"],
      capabilities: [{ name: "audio", supported: "no", by: "Anna" }],
      manufacturer: null,
      model: null,
      firmware: null,
      serial: null,
    },
  },
  {
    kind: "channel",
    id: channelId,
    cameraId,
    channelId: null,
    fields: { number: 1, name: "Channel 1", active: true, capabilities: [] },
  },
  stream(main, "main"),
  stream(sub, "sub"),
  {
    kind: "recording",
    id: recordingId,
    cameraId,
    channelId,
    fields: {
      recordingToken: uuid(6),
      role: "main",
      mode: "continuous",
      enabled: true,
      retentionDays: 30,
      maxBytes: 0,
      preEventSeconds: 0,
      postEventSeconds: 0,
      schedule: [{ startMinute: 0, endMinute: 600 }],
    },
  },
]

const set = (things: ReadonlyArray<Thing>, kind: Thing["kind"], fields: Fields): ReadonlyArray<Thing> =>
  things.map((one) => one.kind === kind && one.id !== sub ? { ...one, fields: { ...one.fields, ...fields } } : one)
const home = (things: ReadonlyArray<Thing>, changedMs = 50): ReadonlyArray<HomeThing> =>
  things.map((one) => ({ ...one, changedMs }))

let number = 0
const journal = (before: ReadonlyArray<Thing>, after: ReadonlyArray<Thing>, atMs = 100): ReadonlyArray<JournalEntry> =>
  differences(before, after).map((one) => ({
    ...one,
    entryId: `${thingKey(one)}/${++number}`,
    atMs,
    by: "anna",
    epoch: 2,
  }))

const nothingOpen: ReadonlyMap<string, Conflict> = new Map()
const applied = (things: ReadonlyArray<HomeThing>, { put, remove }: Merged): ReadonlyArray<HomeThing> => {
  const all = new Map(things.map((one) => [thingKey(one), one]))
  for (const one of remove) all.delete(thingKey(one))
  for (const one of put) all.set(thingKey(one), one)
  return [...all.values()]
}
const openAfter = (open: ReadonlyMap<string, Conflict>, { conflicts, settled }: Merged) => {
  const all = new Map(open)
  for (const key of settled) all.delete(key)
  for (const one of conflicts) all.set(conflictKey(one), one)
  return all
}
const plain = (things: ReadonlyArray<Thing>) =>
  new Map(things.map(({ fields, id, kind }) => [thingKey({ id, kind }), fields]))

/** What people change: a small world, so that both sides often meet. */
const Edit = Schema.Struct({
  name: Schema.Literals(["Front door", "Gate", "Yard"]),
  password: Schema.NullOr(Schema.Literals(["first", "second"])),
  retentionDays: Schema.Literals([30, 7, 90]),
  channel: Schema.Literals(["Channel 1", "Left", "Right"]),
  url: Schema.Literals(["rtsp://camera.example/main", "rtsp://other.example/main"]),
})
const edited = (things: ReadonlyArray<Thing>, { channel, name, password, retentionDays, url }: typeof Edit.Type) =>
  set(
    set(set(set(things, "camera", { name, password }), "recording", { retentionDays }), "channel", { name: channel }),
    "stream",
    { sourceUrl: url },
  )

describe("the journal of a takeover", () => {
  it("tells a configuration as things, and back", () => {
    const cameras = camerasOf(base)
    const recordings = recordingsOf(base)
    assert.strictEqual(cameras[0]!.channels[0]!.streams.length, 2)
    assert.deepStrictEqual(plain([...thingsOf(cameras), ...recordingThings(recordings)]), plain(base))
  })

  it.prop("what one side alone changed is as it has it, and nothing is in conflict", [Edit], ([edit]) => {
    const there = edited(base, edit)
    const onlyThere = mergeJournal(home(base), journal(base, there), nothingOpen, 0)
    assert.deepStrictEqual(plain(applied(home(base), onlyThere)), plain(there))
    const onlyHere = mergeJournal(home(there), [], nothingOpen, 0)
    assert.deepStrictEqual(plain(applied(home(there), onlyHere)), plain(there))
    const bothAlike = mergeJournal(home(there), journal(base, there), nothingOpen, 0)
    assert.deepStrictEqual(plain(applied(home(there), bothAlike)), plain(there))
    for (const { conflicts } of [onlyThere, onlyHere, bothAlike]) assert.deepStrictEqual(conflicts, [])
  })

  it.prop("changes of different fields come together, whichever side made which", [Edit, Edit], ([left, right]) => {
    const a = { ...left, retentionDays: 30, channel: "Channel 1" } as const
    const b = { ...right, name: "Front door", password: "first", url: "rtsp://camera.example/main" } as const
    const [ab, ba] = [[a, b], [b, a]].map(([here, there]) => {
      const own = home(edited(base, here!))
      const merged = mergeJournal(own, journal(base, edited(base, there!)), nothingOpen, 0)
      assert.deepStrictEqual(merged.conflicts, [])
      return plain(applied(own, merged))
    })
    assert.deepStrictEqual(ab, ba)
  })

  it.prop("no change is lost without being shown, and the later one is in force", [
    Edit,
    Edit,
    Schema.Literals([40, 100]),
  ], ([left, right, changedMs]) => {
    const [here, there] = [edited(base, left), edited(base, right)]
    const own = home(here, changedMs)
    // The guardian's clock is an hour ahead: its 3600070 is 70 here.
    const merged = mergeJournal(own, journal(base, there, 3_600_070), nothingOpen, 3_600_000)
    const result = plain(applied(own, merged))
    for (const one of base) {
      const key = thingKey(one)
      for (const [field, before] of Object.entries(one.fields)) {
        const [mine = null, theirs = null] = [plain(here).get(key)![field], plain(there).get(key)![field]]
        const shown = merged.conflicts.find((conflict) => conflictKey(conflict) === `${key}/${field}`)
        if (mine === before || theirs === before || mine === theirs) {
          assert.strictEqual(result.get(key)![field], mine === before ? theirs : mine)
          assert.isUndefined(shown)
        } else {
          assert.deepInclude(shown, { here: mine, there: theirs, base: before, thereBy: "anna" })
          assert.strictEqual(shown!.inForce, changedMs > 70 ? "here" : "there")
          assert.strictEqual(result.get(key)![field], changedMs > 70 ? mine : theirs)
        }
      }
    }
  })

  it.prop(
    "merged again, or in pieces, it is the same",
    [Edit, Edit, Edit, Schema.Literals([40, 200])],
    ([left, right, last, changedMs]) => {
      const own = home(edited(base, left), changedMs)
      const first = journal(base, edited(base, right), 70)
      const second = journal(edited(base, right), edited(base, last), 80)
      const whole = mergeJournal(own, [...first, ...second], nothingOpen, 0)
      const once = applied(own, whole)
      const again = mergeJournal(once, [...first, ...second], openAfter(nothingOpen, whole), 0)
      assert.deepStrictEqual(plain(applied(once, again)), plain(once))
      const sides = (open: ReadonlyMap<string, Conflict>) =>
        new Map([...open].map(([key, one]) => [key, [one.base, one.here, one.there, one.inForce, one.thereBy]]))
      assert.deepStrictEqual(
        sides(openAfter(openAfter(nothingOpen, whole), again)),
        sides(openAfter(nothingOpen, whole)),
      )

      // What both sides made alike is agreed once it was merged, and what follows is one change of one side.
      const [a, b, c] = [edited(base, left), edited(base, right), edited(base, last)].map(plain)
      const agreed = base.some((thing) =>
        Object.entries(thing.fields).some(([field, before]) => {
          const of = (all: ReturnType<typeof plain>) => all.get(thingKey(thing))![field]
          return of(a!) !== before && of(a!) === of(b!) && of(b!) !== of(c!)
        })
      )
      if (agreed) return
      const one = mergeJournal(own, first, nothingOpen, 0)
      const between = applied(own, one)
      const two = mergeJournal(between, second, openAfter(nothingOpen, one), 0)
      assert.deepStrictEqual(plain(applied(between, two)), plain(once))
      const names = (open: ReadonlyMap<string, Conflict>) => [...open.keys()].toSorted()
      const open = openAfter(openAfter(nothingOpen, one), two)
      assert.deepStrictEqual(names(open), names(openAfter(nothingOpen, whole)))
      for (const [key, { here, there }] of openAfter(nothingOpen, whole)) {
        assert.deepInclude(open.get(key), { here, there })
      }
    },
  )

  it("takes what was added, gives a channel that needs one another number, and shows what has no place", () => {
    const channel: Thing = {
      ...base[1]!,
      id: uuid(20),
      fields: { number: 2, name: "New", active: true, capabilities: [] },
    }
    const below = { ...stream(uuid(21), "main"), channelId: ChannelId.make(channel.id) }
    const there = journal(base, [...base, channel, below])
    const merged = mergeJournal(home(base), there, nothingOpen, 0)
    assert.deepStrictEqual(merged.put.map(({ id }) => id), [channel.id, below.id])
    const taken = home([...base, { ...channel, id: uuid(22) }])
    const moved = mergeJournal(taken, there, nothingOpen, 0)
    assert.strictEqual(moved.put.find(({ kind }) => kind === "channel")!.fields["number"], 3)

    const third = journal(base, [...base, stream(uuid(23), "main")])
    const twice = mergeJournal(home(base), third, nothingOpen, 0)
    assert.deepStrictEqual(twice.put, [])
    assert.deepInclude(twice.conflicts[0], { field: "*", here: null, inForce: "here" })
  })

  it("removes what nothing hangs on, and asks a person about the rest", () => {
    const without = (id: string, things = base) => things.filter((one) => one.id !== id)
    const gone = mergeJournal(home(base), journal(base, without(sub)), nothingOpen, 0)
    assert.deepStrictEqual(gone.remove.map(({ id }) => id), [sub])
    for (
      const [here, id] of [
        [base, main], // recorded
        [base, recordingId], // footage
        [base, cameraId],
        [
          base.map((one) => one.id === sub ? { ...one, fields: { ...one.fields, onDemand: true } } : one),
          sub, // changed here
        ],
      ] as const
    ) {
      const kept = mergeJournal(home(here), journal(base, without(id)), nothingOpen, 0)
      assert.deepStrictEqual(kept.remove, [])
      assert.deepInclude(kept.conflicts[0], { field: "*", id, there: null, inForce: "here" })
    }
    // Gone here, changed there.
    const changed = journal(base, set(base, "camera", { name: "Gate" }))
    const [lost] = mergeJournal(home([]), changed, nothingOpen, 0).conflicts
    assert.deepInclude(lost, { here: null, there: { name: "Gate" } })
    assert.deepStrictEqual(mergeJournal(home([]), journal(base, without(sub)), nothingOpen, 0).conflicts, [])
  })

  it("takes over no value that the field cannot have", () => {
    const wrong = journal(base, set(base, "recording", { retentionDays: -1, colour: "red" }))
    const merged = mergeJournal(home(base), wrong, nothingOpen, 0)
    assert.deepStrictEqual(merged.put, [])
    assert.deepStrictEqual(merged.conflicts.map(({ field, inForce }) => `${field} ${inForce}`).toSorted(), [
      "colour here",
      "retentionDays here",
    ])
  })

  it.prop("is in force where it was made, whatever bundle comes", [Edit, Edit], ([older, newer]) => {
    const bundle = edited(base, older)
    assert.deepStrictEqual(
      plain(withJournal(bundle, journal(bundle, edited(bundle, newer)))),
      plain(edited(bundle, newer)),
    )
  })
})
