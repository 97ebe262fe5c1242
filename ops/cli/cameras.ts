/** `nightjar cameras`: list and add. */
import { Console, Effect, Option, Redacted } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { withNode } from "./client.ts"
import { jsonFlag, print } from "./output.ts"

const list = Command.make("list", { json: jsonFlag }, ({ json }) =>
  withNode((client) =>
    Effect.gen(function*() {
      const { items } = yield* client.camera.cameras({ query: { limit: 500 } })
      const rows = items.map((camera) => {
        const stream = camera.channels[0]?.streams[0]
        const picture = stream === undefined || stream.codec === null ?
          "" :
          `${stream.codec} ${stream.width}x${stream.height}`
        return {
          id: camera.id,
          name: camera.name,
          status: camera.status,
          picture,
          address: stream?.sourceUrl ?? "",
          reason: camera.reason,
        }
      })
      yield* print(json, items, rows, "There is no camera yet: nightjar cameras add NAME RTSP-ADDRESS --record")
    })
  )).pipe(Command.withDescription("List cameras with their state"))

const add = Command.make("add", {
  name: Argument.String("name").pipe(Argument.withDescription("Name that people see")),
  address: Argument.String("address").pipe(Argument.withDescription("rtsp://host[:port]/path")),
  sub: Flag.String("sub").pipe(Flag.withDescription("RTSP address of the sub-stream"), Flag.optional),
  username: Flag.String("username").pipe(Flag.withDescription("User name of the camera"), Flag.optional),
  password: Flag.Redacted("password").pipe(Flag.withDescription("Password of the camera"), Flag.optional),
  transport: Flag.Literals("transport", ["tcp", "udp"]).pipe(
    Flag.withDescription("How media travel"),
    Flag.withDefault("tcp"),
  ),
  record: Flag.Boolean("record").pipe(Flag.withDescription("Record it day and night"), Flag.withDefault(false)),
  days: Flag.Int("days").pipe(Flag.withDescription("Days to keep footage"), Flag.withDefault(30)),
  json: jsonFlag,
}, (input) =>
  withNode((client) =>
    Effect.gen(function*() {
      const stream = (role: "main" | "sub", sourceUrl: string) => ({ role, sourceUrl, transport: input.transport })
      const { body: camera } = yield* client.camera.addCamera({
        headers: {},
        payload: {
          name: input.name,
          driver: "rtsp",
          streams: [stream("main", input.address), ...Option.toArray(input.sub).map((sub) => stream("sub", sub))],
          ...(Option.isSome(input.username) ? { username: input.username.value } : {}),
          ...(Option.isSome(input.password) ? { password: Redacted.make(Redacted.value(input.password.value)) } : {}),
        },
      })
      const channel = camera.channels[0]
      if (input.record && channel !== undefined) {
        const payload = { channelId: channel.id, mode: "continuous" as const, enabled: true, retentionDays: input.days }
        const { body: recording } = yield* client.record.createRecording({ headers: {}, payload })
        yield* Console.log(
          input.json ?
            JSON.stringify({ camera, recording }, null, 2) :
            `${camera.id}  recording token ${recording.recordingToken}`,
        )
        return
      }
      yield* Console.log(input.json ? JSON.stringify({ camera }, null, 2) : camera.id)
    })
  )).pipe(
    Command.withDescription("Add a camera by its RTSP address"),
    Command.withExamples([{
      command: "nightjar cameras add \"Front door\" rtsp://192.168.1.20/stream1 --username viewer --record",
      description: "Add a camera and record it",
    }]),
  )

export const cameras = Command.make("cameras").pipe(
  Command.withDescription("Cameras of the node"),
  Command.withSubcommands([list, add]),
)
