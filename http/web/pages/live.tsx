/**
 * The video wall: live pictures of the cameras, in views that each user makes.
 *
 * Invariants
 * 1. At most one picture has sound.
 * 2. What is not on screen plays nothing: other pages of the wall, the wall behind an enlarged picture, a tab in the background.
 */
import type { ChannelId } from "#schema/common.ts"
import { type KeyboardEvent, type RefObject, useEffect, useMemo, useRef, useState } from "react"
import { listCameras, listRecordings } from "../api.ts"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Problem } from "../parts/notes.tsx"
import { useRemote } from "../parts/remote-cameras.tsx"
import { WallBar } from "../parts/wall-bar.tsx"
import { WallLarge } from "../parts/wall-large.tsx"
import { WallList } from "../parts/wall-list.tsx"
import { type TileActions, WallTile } from "../parts/wall-tile.tsx"
import { useSession } from "../session.tsx"
import { type Picked, type Placing, usePlacing } from "../use-placing.ts"
import { useQuery } from "../use-query.ts"
import { useWall, type Wall } from "../use-wall.ts"
import { picturesOf, type WallPicture } from "../wall-pictures.ts"
import { cleared, emptyPlace, fitted, isLarge, layoutOf, neighbour, placed } from "../wall.ts"

const Summary = ({ pictures }: { readonly pictures: ReadonlyArray<WallPicture> }) => {
  const bad = pictures.filter(({ status }) => status === "offline" || status === "authFailed").length
  const online = pictures.filter(({ status }) => status === "online").length
  return (
    <div className="summary">
      <Badge state={online > 0 ? "online" : "disabled"} text={`${online} of ${pictures.length} online`} />
      {bad > 0 && (
        <a href="#/cameras">
          <Badge state="offline" text={`${bad} ${bad === 1 ? "needs" : "need"} attention`} />
        </a>
      )}
    </div>
  )
}

const NoCamera = () => {
  const { may } = useSession()
  return (
    <Empty icon="cameras" title="No camera yet">
      <p>Add one by its RTSP address. Its live picture appears here, and it is recorded from then on.</p>
      {may("camera:write") && (
        <a className="button primary" href="#/cameras?add=1">
          <Icon name="plus" />Add a camera
        </a>
      )}
    </Empty>
  )
}

/** What the wall's tile shows now, as the first picture of the large one. */
const lastPicture = (stage: HTMLElement | null, tile: number): string | null => {
  const video = stage?.querySelector<HTMLVideoElement>(`[data-tile="${tile}"] video`)
  if (!video || video.videoWidth === 0) return null
  const canvas = document.createElement("canvas")
  canvas.width = video.videoWidth
  canvas.height = video.videoHeight
  canvas.getContext("2d")?.drawImage(video, 0, 0)
  return canvas.toDataURL("image/jpeg", 0.7)
}

const faceOf = (stage: HTMLElement | null, tile: number) =>
  stage?.querySelector<HTMLElement>(`[data-tile="${tile}"] .face`)

interface Enlarged {
  readonly id: ChannelId
  readonly tile: number
  readonly poster: string | null
}

/** Everything a person does to the wall; what of it is on screen alone. */
const useWallState = (wall: Wall, pictures: ReadonlyArray<WallPicture>, stage: RefObject<HTMLElement | null>) => {
  const [list, setList] = useState(false)
  const [figures, setFigures] = useState(false)
  const [sound, setSound] = useState<ChannelId | null>(null)
  const [active, setActive] = useState(0)
  /** A tile that was chosen first and waits for a camera. */
  const [target, setTarget] = useState<number | null>(null)
  const [large, setLarge] = useState<Enlarged | null>(null)
  const chosen = layoutOf(wall.view.layout)
  const layout = wall.automatic === true ? fitted(chosen, pictures.length) : chosen
  const { tiles } = wall.view

  const put = ({ from, picture }: Pick<Picked, "from" | "picture">, tile: number | null) => {
    if (tile !== null) wall.setTiles((old) => placed(old, tile, picture))
    else if (from !== null) wall.setTiles((old) => cleared(old, from))
  }
  const placing = usePlacing(put)
  const focus = (tile: number) => {
    setActive(tile)
    // The place is drawn by then, also where the list covered it.
    window.setTimeout(() => faceOf(stage.current, tile)?.focus(), 0)
  }
  const enlarge = (tile: number) => {
    const id = tiles[tile] ?? null
    if (id !== null) setLarge({ id, tile, poster: lastPicture(stage.current, tile) })
  }
  const toggleSound = (id: ChannelId | null) => setSound((old) => old === id ? null : id)
  const choose = (tile: number, byKey: boolean) => {
    const { picked } = placing
    if (picked !== null) {
      put(picked, tile)
      placing.cancel()
      return focus(tile)
    }
    if (tiles[tile] ?? null) return byKey ? enlarge(tile) : undefined
    setTarget(tile)
    setList(true)
  }
  const pick = (picture: WallPicture, byKey: boolean) => {
    if (target !== null) {
      put({ picture: picture.id, from: null }, target)
      setTarget(emptyPlace(placed(tiles, target, picture.id), layout.tiles))
      return
    }
    placing.pick({ picture: picture.id, name: picture.name, from: null })
    if (window.matchMedia("(max-width: 760px)").matches) setList(false)
    if (byKey) focus(emptyPlace(tiles, layout.tiles) ?? 0)
  }
  const latest = useRef({ choose, enlarge, placing, toggleSound, wall, pictures, focus })
  latest.current = { choose, enlarge, placing, toggleSound, wall, pictures, focus }
  const actions = useMemo((): TileActions => ({
    onChoose: (tile, byKey) => latest.current.choose(tile, byKey),
    onEnlarge: (tile) => latest.current.enlarge(tile),
    onRemove: (tile) => {
      latest.current.wall.setTiles((old) => cleared(old, tile))
      latest.current.focus(tile)
    },
    onSound: (tile) => latest.current.toggleSound(latest.current.wall.view.tiles[tile] ?? null),
    onMove: (tile) => {
      const id = latest.current.wall.view.tiles[tile]
      const picture = latest.current.pictures.find((one) => one.id === id)
      if (picture === undefined) return
      latest.current.placing.pick({ picture: picture.id, name: picture.name, from: tile })
      latest.current.focus(tile)
    },
    onFocus: setActive,
    grip: (event, picked) => latest.current.placing.grip(event, picked),
  }), [])
  const close = () => {
    setLarge(null)
    if (large !== null) focus(large.tile)
  }
  const cancel = () => {
    placing.cancel()
    setTarget(null)
  }
  return {
    actions,
    active: Math.min(active, layout.tiles - 1),
    cancel,
    close,
    enlarge,
    figures,
    focus,
    large,
    layout,
    list,
    pick,
    placing,
    setFigures,
    setList: (open: boolean) => {
      setList(open)
      if (!open) setTarget(null)
    },
    sound,
    target,
    toggleSound,
  }
}

type WallState = ReturnType<typeof useWallState>

const fullScreen = (stage: HTMLElement | null): void => {
  if (document.fullscreenElement === null) void stage?.requestFullscreen()
  else void document.exitFullscreen()
}

/** Keys of the whole page, unless somebody is writing. */
const useKeys = (state: WallState, stage: RefObject<HTMLElement | null>) => {
  const pressed = useRef((_event: globalThis.KeyboardEvent) => {})
  pressed.current = (event) => {
    const { target } = event
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return
    if (target instanceof HTMLElement && target.matches("input, select, textarea")) {
      if (event.key === "Escape") state.cancel()
      return
    }
    const waits = state.placing.picked !== null || state.target !== null
    const actions: Readonly<Record<string, () => void>> = {
      Escape: () => waits ? state.cancel() : state.close(),
      f: () => fullScreen(stage.current),
      l: () => state.setList(!state.list),
      s: () => state.setFigures((old) => !old),
      ...(state.large === null ? {} : { m: () => state.toggleSound(state.large?.id ?? null) }),
    }
    actions[event.key]?.()
  }
  useEffect(() => {
    const key = (event: globalThis.KeyboardEvent) => pressed.current(event)
    window.addEventListener("keydown", key)
    return () => window.removeEventListener("keydown", key)
  }, [])
}

const Grid = ({ pictures, state, wall }: {
  readonly wall: Wall
  readonly state: WallState
  readonly pictures: ReadonlyArray<WallPicture>
}) => {
  const { actions, active, figures, focus, large, layout, placing, sound } = state
  const { tiles } = wall.view
  const onKey = (event: KeyboardEvent) => {
    const next = neighbour(layout, active, event.key)
    if (next !== active) {
      event.preventDefault()
      return focus(next)
    }
    if (event.target instanceof Element && !event.target.matches(".face")) return
    if (event.key === "Delete" || event.key === "Backspace") actions.onRemove(active)
    if (event.key === "m") actions.onSound(active)
    if (event.key === "v") actions.onMove(active)
  }
  return (
    <div
      className={`wall-grid columns-${layout.columns}`}
      style={{ "--columns": layout.columns, "--rows": layout.rows, "--first": layout.first } as Record<
        string,
        string | number
      >}
      role="group"
      aria-label={`${wall.view.name}, ${layout.tiles} tiles`}
      hidden={large !== null}
      data-waiting={placing.picked === null ? undefined : ""}
      onKeyDown={onKey}
    >
      {Array.from({ length: layout.tiles }, (_, tile) => {
        const id = tiles[tile] ?? null
        return (
          <WallTile
            key={id ?? tile}
            tile={tile}
            picture={id === null ? null : pictures.find((one) => one.id === id)}
            large={isLarge(layout, tile)}
            sound={id !== null && sound === id && large === null}
            figures={figures}
            active={active === tile}
            over={placing.over === tile}
            waiting={placing.picked?.name ?? null}
            lifted={id !== null && placing.picked?.picture === id}
            actions={actions}
          />
        )
      })}
    </div>
  )
}

const told = ({ picked }: Placing): string =>
  picked === null ?
    "" :
    `${picked.name} is picked. Choose a tile with the arrows and press Enter, or Escape to leave it.`

const WallView = ({ pictures }: { readonly pictures: ReadonlyArray<WallPicture> }) => {
  const wall = useWall(pictures.map(({ id }) => id))
  const stage = useRef<HTMLDivElement>(null)
  const state = useWallState(wall, pictures, stage)
  useKeys(state, stage)
  const { figures, large, layout, list, placing, sound, target } = state
  const shown = pictures.find(({ id }) => id === large?.id)
  const places = new Map(wall.view.tiles.slice(0, layout.tiles).flatMap((id, at) => id === null ? [] : [[id, at]]))
  return (
    <>
      <div className="head wall-head">
        <div className="row">
          <h1>Live</h1>
          <Summary pictures={pictures} />
        </div>
        <WallBar
          wall={wall}
          list={list}
          onList={() => state.setList(!list)}
          figures={figures}
          onFigures={() => state.setFigures(!figures)}
          onFull={() => fullScreen(stage.current)}
        />
      </div>
      <Problem error={wall.error} />
      <div className="wall-body">
        {list && (
          <WallList
            pictures={pictures}
            places={places}
            placing={placing}
            target={target}
            onPick={state.pick}
            onClose={() => state.setList(false)}
          />
        )}
        <div
          className="wall-stage"
          ref={stage}
          style={{ "--shape": large === null ? layout.columns / layout.rows : 1 } as Record<string, number>}
        >
          <Grid wall={wall} state={state} pictures={pictures} />
          {shown !== undefined && (
            <WallLarge
              picture={shown}
              poster={large?.poster ?? null}
              sound={sound === shown.id}
              figures={figures}
              onSound={() => state.toggleSound(shown.id)}
              onFigures={() => state.setFigures(!figures)}
              onFull={() => fullScreen(stage.current)}
              onClose={state.close}
            />
          )}
        </div>
      </div>
      <p className="visually-hidden" role="status">{told(placing)}</p>
      {placing.dragging && (
        <div className="ghost" ref={placing.ghost} aria-hidden="true">
          <Icon name="cameras" />
          {placing.picked?.name}
        </div>
      )}
    </>
  )
}

export const LivePage = () => {
  const { may } = useSession()
  const cameras = useQuery("cameras", listCameras)
  const recordings = useQuery("recordings", listRecordings, 5000, may("recording:read"))
  const remote = useRemote(cameras.data)
  const pictures = useMemo(() =>
    cameras.data === null ?
      null :
      [...picturesOf(cameras.data, recordings.data ?? []), ...(remote.data ?? []).flatMap((node) => node.pictures)], [
    cameras.data,
    recordings.data,
    remote.data,
  ])
  return (
    <div className="wall-page">
      {(pictures === null || pictures.length === 0) && (
        <div className="head">
          <h1>Live</h1>
        </div>
      )}
      <Problem error={cameras.error ?? recordings.error} />
      {pictures === null && cameras.error === null && <Loading lines={4} />}
      {pictures !== null && (pictures.length === 0 ? <NoCamera /> : <WallView pictures={pictures} />)}
    </div>
  )
}
