/** Above the wall: which view, which layout, the list of cameras, statistics, full screen. */
import { useState } from "react"
import { all, type Wall } from "../use-wall.ts"
import { layouts, longestName } from "../wall.ts"
import { Icon, type IconName } from "./icons.tsx"
import { Modal } from "./notes.tsx"

const ViewForm = ({ onClose, wall }: { readonly wall: Wall; readonly onClose: () => void }) => (
  <Modal title="This view" onClose={onClose}>
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        const name = String(new FormData(event.currentTarget).get("name")).trim()
        if (name !== "") {
          wall.rename(name)
        }
        onClose()
      }}
    >
      <label className="field">
        Name
        <input name="name" required maxLength={longestName} defaultValue={wall.view.name} autoComplete="off" />
      </label>
      <div className="actions">
        <button
          type="button"
          className="danger"
          onClick={() => {
            wall.remove()
            onClose()
          }}
        >
          <Icon name="remove" />
          Delete this view
        </button>
        <button type="submit" className="primary">Save</button>
      </div>
    </form>
  </Modal>
)

const Views = ({ wall }: { readonly wall: Wall }) => {
  const [open, setOpen] = useState(false)
  const { copy, show, view, views } = wall
  return (
    <div className="row views">
      <select aria-label="View" value={view.id} onChange={(event) => show(event.target.value)}>
        <option value={all}>All cameras</option>
        {views.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
      </select>
      {view.id !== all && (
        <button
          type="button"
          className="plain"
          aria-label="Rename or delete this view"
          title="Rename or delete this view"
          onClick={() => setOpen(true)}
        >
          <Icon name="edit" />
        </button>
      )}
      <button
        type="button"
        className="plain"
        aria-label="New view of what is shown"
        title="New view of what is shown"
        disabled={copy === null}
        onClick={() => copy?.()}
      >
        <Icon name="plus" />
      </button>
      {open && <ViewForm wall={wall} onClose={() => setOpen(false)} />}
    </div>
  )
}

const Layouts = ({ wall }: { readonly wall: Wall }) => (
  <div className="segments layouts" role="group" aria-label="Layout">
    {wall.automatic !== null && (
      <button
        type="button"
        aria-pressed={wall.automatic}
        onClick={() => wall.setLayout(null)}
      >
        Auto
      </button>
    )}
    {layouts.map(({ id, tiles }) => (
      <button
        key={id}
        type="button"
        aria-label={id === "1" ?
          "1 tile" :
          id === String(tiles) ?
          `${id} tiles` :
          `${id} tiles: a large one and small ones`}
        aria-pressed={wall.automatic !== true && wall.view.layout === id}
        onClick={() => wall.setLayout(id)}
      >
        {id}
      </button>
    ))}
  </div>
)

const Pages = ({ wall: { page, pages, setPage } }: { readonly wall: Wall }) => (
  <div className="row" role="group" aria-label="Pages">
    <button
      type="button"
      className="plain"
      aria-label="Page before"
      disabled={page === 0}
      onClick={() =>
        setPage(page - 1)}
    >
      <Icon name="left" />
    </button>
    <span className="small number">{page + 1} of {pages}</span>
    <button
      type="button"
      className="plain"
      aria-label="Next page"
      disabled={page + 1 === pages}
      onClick={() =>
        setPage(page + 1)}
    >
      <Icon name="right" />
    </button>
  </div>
)

const Switch = ({ icon, label, on, onClick }: {
  readonly icon: IconName
  readonly label: string
  readonly on?: boolean
  readonly onClick: () => void
}) => (
  <button type="button" className="plain" aria-label={label} title={label} aria-pressed={on} onClick={onClick}>
    <Icon name={icon} />
  </button>
)

interface WallBarProps {
  readonly wall: Wall
  readonly list: boolean
  readonly onList: () => void
  readonly figures: boolean
  readonly onFigures: () => void
  readonly onFull: () => void
}

export const WallBar = ({ figures, list, onFigures, onFull, onList, wall }: WallBarProps) => (
  <div className="wall-bar">
    <Views wall={wall} />
    {wall.pages > 1 && <Pages wall={wall} />}
    <Layouts wall={wall} />
    <div className="row">
      <Switch icon="list" label="List of cameras (L)" on={list} onClick={onList} />
      <Switch icon="figures" label="Statistics (S)" on={figures} onClick={onFigures} />
      <Switch icon="full" label="Full screen (F)" onClick={onFull} />
    </div>
  </div>
)
