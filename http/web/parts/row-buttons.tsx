/** The buttons at the end of a row: change it, take it away. */
import { Icon } from "./icons.tsx"

interface RowButtonsProps {
  /** What the row is called. */
  readonly name: string
  readonly onEdit: () => void
  readonly onDelete: () => void
}

export const RowButtons = ({ name, onDelete, onEdit }: RowButtonsProps) => (
  <>
    <button type="button" onClick={onEdit} aria-label={`Edit ${name}`} title="Edit">
      <Icon name="edit" />
    </button>
    <button type="button" className="danger" onClick={onDelete} aria-label={`Delete ${name}`} title="Delete">
      <Icon name="remove" />
    </button>
  </>
)
