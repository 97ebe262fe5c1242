/**
 * One place of the wall: a live picture, or why there is none, or nothing yet.
 *
 * Invariant
 * 1. Of all controls of the wall only those of the place with the focus can be reached by Tab; the arrows go from place to place.
 */
import type { StreamRole } from "#schema/record.ts"
import { memo, type ReactNode, useState } from "react"
import { missingSince } from "../api-live.ts"
import { useSession } from "../session.tsx"
import type { LiveState } from "../stream-player.ts"
import { momentOf } from "../time.ts"
import type { Placing } from "../use-placing.ts"
import { useQuery } from "../use-query.ts"
import { streamOf, type WallPicture } from "../wall-pictures.ts"
import { Icon, type IconName } from "./icons.tsx"
import { LiveVideo } from "./live-video.tsx"
import { Why } from "./notes.tsx"

/** Since when there is no picture, as far as the recording tells. */
const Since = ({ picture }: { readonly picture: WallPicture }) => {
  const { may } = useSession()
  const id = picture.recording?.id ?? null
  const since = useQuery(
    `since ${id}`,
    () => id === null ? Promise.resolve(null) : missingSince(id),
    15_000,
    id !== null && may("recording:read"),
  )
  return since.data === null ? null : <span className="small">No pictures since {momentOf(since.data)}</span>
}

const Note = ({ children, icon }: { readonly icon: IconName; readonly children: ReactNode }) => (
  <div className="said">
    <Icon name={icon} />
    {children}
  </div>
)

/** Why a picture is not played at all; null: it is, or it is tried. */
const Hindered = ({ picture }: { readonly picture: WallPicture }) => {
  const { may } = useSession()
  if (!may("camera:live")) return <Note icon="lock">None of your roles lets you watch live pictures.</Note>
  if (picture.status === "disabled") return <Note icon="pause">Switched off</Note>
  if (picture.status === "authFailed") {
    return (
      <Note icon="lock">
        <Why reason={picture.reason} />
        <Since picture={picture} />
        {may("camera:write") && picture.node === null && (
          <a href={`#/cameras?edit=${picture.cameraId}`}>Change the password</a>
        )}
      </Note>
    )
  }
  if (picture.node !== null && picture.streams.length === 0) {
    return (
      <Note icon="trouble">
        <Why reason={picture.reason} />
      </Note>
    )
  }
  if (streamOf(picture, "main") === null) return <Note icon="trouble">It has no stream that is switched on.</Note>
  return null
}

export const hindered = (picture: WallPicture, may: ReturnType<typeof useSession>["may"]): boolean =>
  !may("camera:live") || picture.status === "disabled" || picture.status === "authFailed" ||
  streamOf(picture, "main") === null

interface ScreenProps {
  readonly picture: WallPicture
  readonly role: StreamRole
  readonly sound: boolean
  readonly figures: boolean
  readonly zoom?: boolean
  readonly poster?: string | null
  readonly onState?: (state: LiveState) => void
  readonly onOtherStream?: () => void
}

/** The picture of a camera, with the camera's own troubles on top while nothing plays. */
export const Screen = ({ figures, onOtherStream, onState, picture, poster, role, sound, zoom }: ScreenProps) => {
  const { may } = useSession()
  const [playing, setPlaying] = useState(false)
  /** A small picture takes the other stream where its own cannot be had; a large one says why. */
  const [instead, setInstead] = useState(false)
  const other = role === "main" ? "sub" : "main"
  const stream = streamOf(picture, instead ? other : role)
  if (hindered(picture, may) || stream === null) return <Hindered picture={picture} />
  const away = picture.status === "offline" && !playing
  return (
    <>
      <LiveVideo
        key={stream.id}
        streamId={stream.id}
        remote={picture.node === null ? null : picture.id}
        role={stream.role}
        sound={sound}
        label={`${picture.name}, live`}
        codec={stream.codec}
        audioCodec={stream.audioCodec}
        figures={figures}
        zoom={zoom ?? false}
        poster={poster ?? null}
        onState={(state) => {
          setPlaying(state.phase === "playing")
          if (!zoom && state.undecodable && picture.streams.length > 1) setInstead(true)
          onState?.(state)
        }}
        onOtherStream={picture.streams.length > 1 ? onOtherStream : undefined}
      />
      {away && (
        <div className="away">
          <Note icon="trouble">
            <Why reason={picture.reason || "The camera is offline"} />
            <Since picture={picture} />
          </Note>
        </div>
      )}
    </>
  )
}

export interface TileActions {
  readonly onChoose: (tile: number, byKey: boolean) => void
  readonly onEnlarge: (tile: number) => void
  readonly onRemove: (tile: number) => void
  readonly onSound: (tile: number) => void
  readonly onMove: (tile: number) => void
  readonly onFocus: (tile: number) => void
  readonly grip: Placing["grip"]
}

interface TileProps {
  readonly tile: number
  /** Null: nothing stands here. Undefined: what stands here is not there any more, or not for this user. */
  readonly picture: WallPicture | null | undefined
  readonly large: boolean
  readonly sound: boolean
  readonly figures: boolean
  /** The arrows have come to this one. */
  readonly active: boolean
  readonly over: boolean
  /** Name of what waits to be put to a place. */
  readonly waiting: string | null
  readonly lifted: boolean
  readonly actions: TileActions
}

const Tool = ({ active, icon, label, onClick, pressed }: {
  readonly icon: IconName
  readonly label: string
  readonly active: boolean
  readonly pressed?: boolean
  readonly onClick: () => void
}) => (
  <button
    type="button"
    aria-label={label}
    title={label}
    aria-pressed={pressed}
    tabIndex={active ? 0 : -1}
    onClick={onClick}
  >
    <Icon name={icon} />
  </button>
)

const Tools = ({ actions, active, picture, sound, tile }: TileProps) => {
  const name = picture?.name ?? `tile ${tile + 1}`
  const shown = picture !== null && picture !== undefined
  const audible = shown && picture.streams.some(({ audioCodec }) => audioCodec !== null)
  return (
    <div className="tools">
      {audible && (
        <Tool
          active={active}
          icon={sound ? "sound" : "silent"}
          label={`Sound of ${name}`}
          pressed={sound}
          onClick={() => actions.onSound(tile)}
        />
      )}
      {shown && <Tool active={active} icon="move" label={`Move ${name}`} onClick={() => actions.onMove(tile)} />}
      {shown && <Tool active={active} icon="full" label={`Enlarge ${name}`} onClick={() => actions.onEnlarge(tile)} />}
      <Tool active={active} icon="close" label={`Take ${name} off the wall`} onClick={() => actions.onRemove(tile)} />
    </div>
  )
}

const faceLabel = ({ picture, tile, waiting }: TileProps): string => {
  const here = picture === null ? "empty" : picture?.name ?? "camera not there"
  if (waiting !== null) return `Put ${waiting} to tile ${tile + 1}, ${here}`
  return picture ? `Enlarge ${picture.name}, tile ${tile + 1}` : `Tile ${tile + 1}, ${here}`
}

const TileView = (props: TileProps) => {
  const { actions, active, figures, large, lifted, over, picture, sound, tile, waiting } = props
  const classes = ["wall-tile", over && "over", picture === null && "vacant", lifted && "lifted", large && "wide"]
  return (
    <article
      className={classes.filter((one) => one !== false).join(" ")}
      data-tile={tile}
      aria-label={picture?.name ?? `Tile ${tile + 1}`}
    >
      {picture === undefined && <Note icon="lock">This camera is no longer here, or no longer for you.</Note>}
      {picture && <Screen picture={picture} role={large ? "main" : "sub"} sound={sound} figures={figures} />}
      <button
        type="button"
        className="face"
        aria-label={faceLabel(props)}
        tabIndex={active ? 0 : -1}
        onFocus={() => actions.onFocus(tile)}
        onPointerDown={(event) =>
          picture && actions.grip(event, { picture: picture.id, name: picture.name, from: tile })}
        onClick={(event) => actions.onChoose(tile, event.detail === 0)}
        onDoubleClick={() => picture && waiting === null && actions.onEnlarge(tile)}
      >
        {picture === null && <Icon name="plus" />}
      </button>
      {picture && (
        <p className="name">
          <i className={`state ${picture.status}`} />
          <span className="cut">{picture.name}</span>
          {sound && <Icon name="sound" />}
        </p>
      )}
      {picture !== null && <Tools {...props} />}
    </article>
  )
}

export const WallTile = memo(TileView)
