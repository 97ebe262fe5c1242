/** The pages one may open, beside the content; on a telephone the first ones below it and the others in a dialog. */
import { useState } from "react"
import { type Place, places } from "../places.ts"
import { useSession } from "../session.tsx"
import { Icon } from "./icons.tsx"
import { Modal } from "./notes.tsx"

const groups = [["watch", "Watch"], ["manage", "Manage"]] as const

const PlaceLink = (
  { now, onOpen, place }: { readonly place: Place; readonly now: string; readonly onOpen?: () => void },
) => (
  <a
    className={place.group}
    href={`#/${place.id}`}
    aria-current={now === place.id ? "page" : undefined}
    onClick={onOpen}
  >
    <Icon name={place.id} />
    {place.name}
  </a>
)

export const Navigation = ({ now }: { readonly now: string }) => {
  const { may } = useSession()
  const [more, setMore] = useState(false)
  const open = places.filter(({ needs }) => needs.some(may))
  const manage = open.filter(({ group }) => group === "manage")
  return (
    <nav aria-label="Pages">
      {groups.map(([group, name]) => {
        const some = open.filter((place) => place.group === group)
        return some.length > 0 && (
          <div key={group} className="places">
            <h2 className="small">{name}</h2>
            {some.map((place) => <PlaceLink key={place.id} place={place} now={now} />)}
          </div>
        )
      })}
      {manage.length > 0 && (
        <button
          type="button"
          className="more"
          aria-current={manage.some(({ id }) => id === now) ? "page" : undefined}
          onClick={() => setMore(true)}
        >
          <Icon name="more" />
          More
        </button>
      )}
      {more && (
        <Modal title="More pages" onClose={() => setMore(false)}>
          <div className="sheet">
            {manage.map((place) => <PlaceLink key={place.id} place={place} now={now} onOpen={() => setMore(false)} />)}
          </div>
        </Modal>
      )}
    </nav>
  )
}
