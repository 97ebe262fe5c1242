/** The cameras that can be put on the wall: searched, dragged, or picked with a key or a tap and then put to a place. */
import { useRef, useState } from "react"
import type { Placing } from "../use-placing.ts"
import { found, type WallPicture } from "../wall-pictures.ts"
import { Icon } from "./icons.tsx"

/** Rows that are drawn; whoever has more cameras searches. */
const mostRows = 300

const states: Readonly<Record<string, string>> = {
  authFailed: "password refused",
  disabled: "switched off",
  registered: "new",
  probing: "connecting",
}

interface WallListProps {
  readonly pictures: ReadonlyArray<WallPicture>
  /** Places by picture, from 0. */
  readonly places: ReadonlyMap<string, number>
  readonly placing: Placing
  /** The tile that was chosen first and waits for a camera. */
  readonly target: number | null
  readonly onPick: (picture: WallPicture, byKey: boolean) => void
  readonly onClose: () => void
}

const Row = ({ onPick, picture, place, placing }: {
  readonly picture: WallPicture
  readonly place: number | undefined
  readonly placing: Placing
  readonly onPick: WallListProps["onPick"]
}) => {
  const { id, name, status } = picture
  return (
    <li>
      <button
        type="button"
        aria-pressed={placing.picked?.picture === id}
        onPointerDown={(event) => placing.grip(event, { picture: id, name, from: null })}
        onClick={(event) => onPick(picture, event.detail === 0)}
      >
        <i className={`state ${status}`} />
        <span className="grow cut">{name}</span>
        <span className="visually-hidden">, {states[status] ?? status}</span>
        {place !== undefined && (
          <span className="place">
            <span className="visually-hidden">, on tile</span>
            {place + 1}
          </span>
        )}
        <Icon name="grip" />
      </button>
    </li>
  )
}

export const WallList = ({ onClose, onPick, pictures, places, placing, target }: WallListProps) => {
  const [text, setText] = useState("")
  const list = useRef<HTMLUListElement>(null)
  const shown = found(pictures, text)
  return (
    <aside className="wall-list" aria-label="Cameras" data-list>
      <div className="spread">
        <h2>{target === null ? "Cameras" : `Camera for tile ${target + 1}`}</h2>
        <button type="button" className="plain" aria-label="Close the list of cameras" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <input
        type="search"
        aria-label="Search cameras"
        placeholder="Search"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown") return
          event.preventDefault()
          list.current?.querySelector("button")?.focus()
        }}
      />
      <ul
        ref={list}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return
          event.preventDefault()
          const row = document.activeElement?.closest("li")
          const next = event.key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling
          next?.querySelector("button")?.focus()
        }}
      >
        {shown.slice(0, mostRows).map((picture) => (
          <Row
            key={picture.id}
            picture={picture}
            place={places.get(picture.id)}
            placing={placing}
            onPick={onPick}
          />
        ))}
      </ul>
      {shown.length === 0 && <p className="small muted">No camera has this name.</p>}
      {shown.length > mostRows && <p className="small muted">{shown.length - mostRows} more: search for them.</p>}
      <p className="small muted hint">
        {placing.picked === null ?
          "Drag a camera to a tile, or choose it and then the tile." :
          `Now choose the tile for ${placing.picked.name}.`}
      </p>
    </aside>
  )
}
