/** What the keys do. */
import { Fragment } from "react"
import { Modal } from "./notes.tsx"

const keys: ReadonlyArray<readonly [string, ReadonlyArray<readonly [string, string]>]> = [
  ["Wall", [
    ["←  ↑  →  ↓", "from tile to tile"],
    ["Enter", "enlarge, or put what was picked here"],
    ["V", "pick up, to put it to another tile"],
    ["Del", "take off the wall"],
    ["M", "sound"],
    ["L", "list of cameras"],
    ["S", "statistics"],
    ["F", "full screen"],
    ["Esc", "back to the wall, put nothing"],
    ["+  −  0", "digital zoom of an enlarged picture"],
  ]],
  ["Player", [
    ["Space", "play, pause"],
    ["J  L", "ten seconds back, forward"],
    [",  .", "one picture back, forward"],
    ["<  >", "slower, faster"],
    ["N", "newest picture"],
    ["G", "next gap"],
    ["M", "sound"],
    ["F", "full screen"],
  ]],
  ["Timeline, when it has the focus", [
    ["←  →", "seek by a fiftieth of what it shows"],
    ["+  −", "zoom"],
    ["Page ↑  Page ↓", "move by what it shows"],
    ["Home  End", "first, last footage it shows"],
  ]],
  ["Camera, where it can be moved", [["←  →  ↑  ↓", "turn it while held"], ["+  −", "zoom while held"]]],
  ["Everywhere", [["?", "this help"], ["Esc", "close a dialog"]]],
]

export const Help = ({ onClose }: { readonly onClose: () => void }) => (
  <Modal title="Keyboard" onClose={onClose}>
    {keys.map(([place, list]) => (
      <section key={place}>
        <h3>{place}</h3>
        <dl className="keys">
          {list.map(([names, what]) => (
            <Fragment key={names}>
              <dt>{names.split("  ").map((name) => <kbd key={name}>{name}</kbd>)}</dt>
              <dd>{what}</dd>
            </Fragment>
          ))}
        </dl>
      </section>
    ))}
    <p className="small muted" style={{ marginTop: ".8rem" }}>
      On the timeline, the wheel zooms, dragging moves, a click seeks.
    </p>
  </Modal>
)
