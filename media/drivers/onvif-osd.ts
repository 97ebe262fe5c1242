/**
 * Texts and pictures that an ONVIF device draws into its image (OSD; ONVIF Media, section 5.14, and Media2, section 5.10).
 *
 * Invariants
 * 1. An OSD is sent whole, made of what the device has and what is to change, once its options allow it.
 * 2. It is found in the list of all: GetOSD exists in Media 1 alone, and not on every device.
 */
import type {
  Osd,
  OsdChange,
  OsdColor,
  osdCorners,
  OsdCreate,
  OsdOptions,
  OsdText,
  osdTextKinds,
  osdTypes,
} from "#schema/camera-config.ts"
import { CameraRefused, type DeviceError, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Schema } from "effect"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { filled, integer, many, number, opt, present, range, text, worded } from "./onvif-shape.ts"
import {
  configurationToken,
  type Fault,
  firstFault,
  type MediaService,
  oneOf,
  onMedia,
  withinRange,
  wordFor,
} from "./onvif-words.ts"

const corners = {
  upperLeft: "UpperLeft",
  upperRight: "UpperRight",
  lowerLeft: "LowerLeft",
  lowerRight: "LowerRight",
  custom: "Custom",
} as const satisfies Record<(typeof osdCorners)[number], string>
const textKinds = {
  plain: "Plain",
  date: "Date",
  time: "Time",
  dateAndTime: "DateAndTime",
} as const satisfies Record<(typeof osdTextKinds)[number], string>
const types = { text: "Text", image: "Image" } as const satisfies Record<(typeof osdTypes)[number], string>

const colorAttributes = Schema.Struct({ $X: number, $Y: number, $Z: number, $Colorspace: opt(text) })
const colorShape = Schema.Struct({ $Transparent: opt(integer), color: opt(filled(colorAttributes)) })
const osdShape = Schema.Struct({
  $token: text,
  videoSourceConfigurationToken: opt(worded),
  type: opt(text),
  position: opt(filled(Schema.Struct({
    type: opt(text),
    pos: opt(filled(Schema.Struct({ $x: opt(number), $y: opt(number) }))),
  }))),
  textString: opt(filled(Schema.Struct({
    type: opt(text),
    dateFormat: opt(text),
    timeFormat: opt(text),
    fontSize: opt(integer),
    fontColor: opt(filled(colorShape)),
    backgroundColor: opt(filled(colorShape)),
    plainText: opt(text),
  }))),
  image: opt(filled(Schema.Struct({ imgPath: opt(text) }))),
})
const colorsShape = Schema.Struct({
  color: opt(filled(Schema.Struct({ colorList: opt(many(colorAttributes)) }))),
  transparent: opt(filled(range)),
})
const maximumShape = Schema.Struct({
  $Total: opt(integer),
  $Image: opt(integer),
  $PlainText: opt(integer),
  $Date: opt(integer),
  $Time: opt(integer),
  $DateAndTime: opt(integer),
})
const optionsShape = Schema.Struct({
  // A bare number on some devices.
  maximumNumberOfOSDs: opt(Schema.Union([maximumShape, text])),
  type: opt(many(text)),
  positionOption: opt(many(text)),
  textOption: opt(filled(Schema.Struct({
    type: opt(many(text)),
    fontSizeRange: opt(filled(range)),
    dateFormat: opt(many(text)),
    timeFormat: opt(many(text)),
    fontColor: opt(filled(colorsShape)),
    backgroundColor: opt(filled(colorsShape)),
  }))),
  imageOption: opt(filled(Schema.Struct({ imagePath: opt(many(text)) }))),
})

const toColor = (shape: typeof colorAttributes.Type, transparency: number | null): OsdColor => ({
  x: shape.$X,
  y: shape.$Y,
  z: shape.$Z,
  colorspace: shape.$Colorspace ?? null,
  transparency,
})
const colorOf = (shape: typeof colorShape.Type | "" | undefined): OsdColor | null => {
  const told = present(shape)
  const color = present(told?.color)
  return color === null ? null : toColor(color, told?.$Transparent ?? null)
}

const toOsd = (shape: typeof osdShape.Type): Osd => {
  const position = present(shape.position)
  const place = present(position?.pos)
  const words = present(shape.textString)
  return {
    token: shape.$token,
    sourceToken: shape.videoSourceConfigurationToken ?? "",
    type: wordFor(types, shape.type) ?? "other",
    position: { kind: wordFor(corners, position?.type) ?? "other", x: place?.$x ?? null, y: place?.$y ?? null },
    text: words === null ? null : {
      kind: wordFor(textKinds, words.type) ?? "other",
      text: words.plainText ?? null,
      dateFormat: words.dateFormat ?? null,
      timeFormat: words.timeFormat ?? null,
      fontSize: words.fontSize ?? null,
      fontColor: colorOf(words.fontColor),
      backgroundColor: colorOf(words.backgroundColor),
    },
    imagePath: present(shape.image)?.imgPath ?? null,
  }
}

const known = <Word extends string>(
  words: Readonly<Record<Word, string>>,
  told: ReadonlyArray<string> | undefined,
): ReadonlyArray<Word> => (told ?? []).map((one) => wordFor(words, one)).filter((word) => word !== null)

const colorsOf = (shape: typeof colorsShape.Type | "" | undefined): OsdOptions["fontColors"] => {
  const told = present(shape)
  return told === null ? null : {
    colors: (present(told.color)?.colorList ?? []).map((one) => toColor(one, null)),
    transparency: present(told.transparent),
  }
}

const toOptions = (sourceToken: string, shape: typeof optionsShape.Type): OsdOptions => {
  const most = shape.maximumNumberOfOSDs
  const counts: typeof maximumShape.Type = typeof most === "object" ? most : {}
  const alone = typeof most === "string" && /^\d{1,4}$/.test(most.trim()) ? Number(most) : null
  const words = present(shape.textOption)
  return {
    sourceToken,
    maximum: {
      total: counts.$Total ?? alone,
      image: counts.$Image ?? null,
      plain: counts.$PlainText ?? null,
      date: counts.$Date ?? null,
      time: counts.$Time ?? null,
      dateAndTime: counts.$DateAndTime ?? null,
    },
    types: known(types, shape.type),
    positions: known(corners, shape.positionOption),
    textKinds: known(textKinds, words?.type),
    fontSize: present(words?.fontSizeRange),
    dateFormats: words?.dateFormat ?? [],
    timeFormats: words?.timeFormat ?? [],
    fontColors: colorsOf(words?.fontColor),
    backgroundColors: colorsOf(words?.backgroundColor),
    imagePaths: present(shape.imageOption)?.imagePath ?? [],
  }
}

const colorFault = (pointer: string, color: OsdColor | undefined, allowed: OsdOptions["fontColors"]): Fault => {
  if (color === undefined) return null
  if (allowed === null) return InvalidInput.at(`/payload/${pointer}`, "the camera does not offer it")
  const { colors, transparency } = allowed
  const same = (one: OsdColor) =>
    one.x === color.x && one.y === color.y && one.z === color.z &&
    (color.colorspace === null || one.colorspace === null || one.colorspace === color.colorspace)
  if (colors.length > 0 && !colors.some(same)) {
    const list = colors.map(({ x, y, z }) => `${x}/${y}/${z}`).join(", ")
    return InvalidInput.at(`/payload/${pointer}`, `the camera allows x/y/z of ${list}`)
  }
  return withinRange(`${pointer}/transparency`, color.transparency ?? undefined, transparency)
}

/** What of a change its options forbid; what they do not tell is left to the device. */
const changeFaults = (type: Osd["type"], { imagePath, position, text: words }: OsdChange, allowed: OsdOptions) => {
  const { kind, x, y } = position ?? {}
  return firstFault(
    type === "image" && words !== undefined ? InvalidInput.at("/payload/text", "an image has no text") : null,
    type === "text" && imagePath !== undefined ? InvalidInput.at("/payload/imagePath", "a text has no image") : null,
    oneOf("position/kind", kind, allowed.positions),
    kind === "custom" && (x === undefined || y === undefined) ?
      InvalidInput.at("/payload/position", "custom needs x and y, from -1 to 1") :
      null,
    oneOf("text/kind", words?.kind, allowed.textKinds),
    withinRange("text/fontSize", words?.fontSize, allowed.fontSize),
    oneOf("text/dateFormat", words?.dateFormat, allowed.dateFormats),
    oneOf("text/timeFormat", words?.timeFormat, allowed.timeFormats),
    colorFault("text/fontColor", words?.fontColor, allowed.fontColors),
    colorFault("text/backgroundColor", words?.backgroundColor, allowed.backgroundColors),
    oneOf("imagePath", imagePath, allowed.imagePaths),
  )
}

/** A text of dates needs formats: the device's first ones, where nobody chose. */
const completed = (words: OsdText, allowed: OsdOptions): OsdText => ({
  ...words,
  dateFormat: words.dateFormat ??
    (words.kind === "date" || words.kind === "dateAndTime" ? allowed.dateFormats[0] ?? null : null),
  timeFormat: words.timeFormat ??
    (words.kind === "time" || words.kind === "dateAndTime" ? allowed.timeFormats[0] ?? null : null),
})

const noText: OsdText = {
  kind: "plain",
  text: null,
  dateFormat: null,
  timeFormat: null,
  fontSize: null,
  fontColor: null,
  backgroundColor: null,
}

const merged = (now: Osd, change: OsdChange, allowed: OsdOptions): Osd => {
  const { position } = change
  return {
    ...now,
    position: position === undefined ?
      now.position :
      { kind: position.kind, x: position.x ?? null, y: position.y ?? null },
    text: now.type === "text" ? completed({ ...noText, ...now.text, ...change.text }, allowed) : now.text,
    imagePath: change.imagePath ?? now.imagePath,
  }
}

const element = (name: string, content: string | number | null): string =>
  content === null ? "" : `<tt:${name}>${escaped(String(content))}</tt:${name}>`

const colorXml = (name: string, color: OsdColor | null): string => {
  if (color === null) return ""
  const transparency = color.transparency === null ? "" : ` Transparent="${color.transparency}"`
  const space = color.colorspace === null ? "" : ` Colorspace="${escaped(color.colorspace)}"`
  return `<tt:${name}${transparency}><tt:Color X="${color.x}" Y="${color.y}" Z="${color.z}"${space}/></tt:${name}>`
}

/** In the order of the schema, which devices insist on. */
const textXml = (words: OsdText): string =>
  "<tt:TextString>" + element("Type", words.kind === "other" ? "Plain" : textKinds[words.kind]) +
  (words.kind === "date" || words.kind === "dateAndTime" ? element("DateFormat", words.dateFormat) : "") +
  (words.kind === "time" || words.kind === "dateAndTime" ? element("TimeFormat", words.timeFormat) : "") +
  element("FontSize", words.fontSize) + colorXml("FontColor", words.fontColor) +
  colorXml("BackgroundColor", words.backgroundColor) +
  (words.kind === "plain" || words.kind === "other" ? element("PlainText", words.text ?? "") : "") + "</tt:TextString>"

const osdXml = ({ imagePath, position, sourceToken, text: words, token, type }: Osd): string => {
  const kind = position.kind === "other" ? "Custom" : corners[position.kind]
  const place = position.x === null || position.y === null ? "" : `<tt:Pos x="${position.x}" y="${position.y}"/>`
  return `<OSD token="${escaped(token)}">${element("VideoSourceConfigurationToken", sourceToken)}` +
    `<tt:Type>${type === "image" ? "Image" : "Text"}</tt:Type>` +
    `<tt:Position><tt:Type>${kind}</tt:Type>${place}</tt:Position>` +
    (type === "text" && words !== null ? textXml(words) : "") +
    (type === "image" && imagePath !== null ? `<tt:Image>${element("ImgPath", imagePath)}</tt:Image>` : "") + "</OSD>"
}

const osdsShape = Schema.Union([Schema.Struct({ OSDs: opt(many(osdShape)) }), Schema.Literal("")])
const osdToken = (token: string) => `<OSDToken>${escaped(token)}</OSDToken>`

/** How many of this kind may be added. */
const countFault = (input: OsdCreate, all: ReadonlyArray<Osd>, { maximum, sourceToken }: OsdOptions): Fault => {
  const own = all.filter((one) => one.sourceToken === sourceToken)
  const kind = input.type === "image" ? "image" : input.text?.kind ?? "plain"
  const alike = own.filter((one) => (one.type === "image" ? "image" : one.text?.kind) === kind)
  const full = (most: number | null, have: number, what: string): Fault =>
    most === null || have < most ? null : InvalidInput.at("/payload/type", `the camera allows ${most} ${what}`)
  return full(maximum.total, own.length, "OSDs in one picture") ?? full(maximum[kind], alike.length, `of kind ${kind}`)
}

/** What is asked of one of the two services. */
const operations = (client: OnvifClient, service: MediaService, firstSource: Effect.Effect<string, DeviceError>) => {
  const list: Effect.Effect<ReadonlyArray<Osd>, DeviceError> = Effect.map(
    client.call({ service, operation: "GetOSDs", reply: osdsShape }),
    (found) => found === "" ? [] : (found.OSDs ?? []).map(toOsd),
  )
  const one = (token: string): Effect.Effect<Osd, DeviceError> =>
    Effect.flatMap(list, (all) => {
      const found = all.find((osd) => osd.token === token)
      return found === undefined ?
        Effect.fail(new CameraRefused({ operation: "GetOSDs", detail: "it has no such OSD" })) :
        Effect.succeed(found)
    })
  const options = Effect.fnUntraced(function*(source: string | null) {
    const token = source ?? (yield* firstSource)
    const told = yield* client.call({
      service,
      operation: "GetOSDOptions",
      body: configurationToken(token),
      reply: Schema.Struct({ OSDOptions: filled(optionsShape) }),
    })
    return toOptions(token, present(told.OSDOptions) ?? {})
  })
  return {
    list,
    one,
    options,
    create: Effect.fnUntraced(function*(input: OsdCreate) {
      const allowed = yield* options(input.sourceToken ?? null)
      yield* firstFault(oneOf("type", input.type, allowed.types), countFault(input, yield* list, allowed))
      if (input.type === "image" && input.imagePath === undefined) {
        const paths = allowed.imagePaths.join(", ") || "none"
        return yield* InvalidInput.at("/payload/imagePath", `an image needs one; the camera allows ${paths}`)
      }
      yield* changeFaults(input.type, input, allowed)
      const { type } = input
      const empty = {
        token: "",
        sourceToken: allowed.sourceToken,
        type,
        position: { ...input.position, x: null, y: null },
      }
      const body = osdXml(merged({ ...empty, text: null, imagePath: null }, input, allowed))
      const made = yield* client.call({
        service,
        operation: "CreateOSD",
        body,
        reply: Schema.Struct({ OSDToken: worded }),
      })
      return yield* one(made.OSDToken)
    }),
    set: Effect.fnUntraced(function*(token: string, change: OsdChange) {
      const now = yield* one(token)
      if (now.type === "other" || (now.text?.kind === "other" && change.text?.kind === undefined)) {
        return yield* new OnvifOperationUnsupported({
          operation: "SetOSD",
          detail: "it is of a kind of the maker's own",
        })
      }
      const allowed = yield* options(now.sourceToken === "" ? null : now.sourceToken)
      yield* changeFaults(now.type, change, allowed)
      yield* client.call({
        service,
        operation: "SetOSD",
        body: osdXml(merged(now, change, allowed)),
        reply: Schema.Unknown,
      })
      return yield* one(token)
    }),
    remove: (token: string) =>
      Effect.asVoid(client.call({ service, operation: "DeleteOSD", body: osdToken(token), reply: Schema.Unknown })),
  }
}

/** `firstSource`: token of the first video source configuration. */
export const onvifOsd = (client: OnvifClient, media2: boolean, firstSource: Effect.Effect<string, DeviceError>) => {
  const by = { media: operations(client, "media", firstSource), media2: operations(client, "media2", firstSource) }
  const on = onMedia(media2)
  return {
    osds: on((service) => by[service].list),
    osd: (token: string) => on((service) => by[service].one(token)),
    osdOptions: (source: string | null) => on((service) => by[service].options(source)),
    createOsd: (input: OsdCreate) => on((service) => by[service].create(input)),
    setOsd: (token: string, change: OsdChange) => on((service) => by[service].set(token, change)),
    deleteOsd: (token: string) => on((service) => by[service].remove(token)),
  }
}
