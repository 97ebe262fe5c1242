/**
 * Cameras from a backup: the file, its passphrase, what would become of each camera, and then the work.
 *
 * Invariant
 * 1. Nothing is imported that was not shown first: another file or another passphrase asks for another look.
 */
import type { ImportPlan } from "#schema/camera-job.ts"
import { type DragEvent, useState } from "react"
import { type Backup, importCameras, planImport, readBackup } from "../api-camera-job.ts"
import { Outcomes } from "../parts/camera-outcomes.tsx"
import { Form, Text, useAction } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Problem } from "../parts/notes.tsx"
import { momentOf } from "../time.ts"

const many = (count: number, what = "camera") => `${count} ${what}${count === 1 ? "" : "s"}`

interface ChooseProps {
  readonly onFile: (file: File) => void
  readonly error: string | null
}

const Choose = ({ error, onFile }: ChooseProps) => {
  const [over, setOver] = useState(false)
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    const [file] = event.dataTransfer.files
    if (file !== undefined) onFile(file)
  }
  return (
    <section className="panel stack" aria-label="File">
      <label
        className={`drop ${over ? "over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <Icon name="download" />
        <strong>Choose the file of an export, or drop it here</strong>
        <span className="small muted">
          A JSON file as “Export…” makes it. Nothing is imported yet: you see first what would happen.
        </span>
        <input
          type="file"
          accept=".json,application/json"
          aria-label="File of an export"
          onChange={(event) => {
            const [file] = event.target.files ?? []
            if (file !== undefined) onFile(file)
            // The same file again, once it was mended, is a choice too.
            event.target.value = ""
          }}
        />
      </label>
      <Problem error={error} />
    </section>
  )
}

interface UnlockProps {
  readonly backup: Backup
  readonly name: string
  readonly onPlan: (plan: ImportPlan, passphrase: string) => void
  readonly onOther: () => void
  readonly onChange: () => void
}

const Unlock = ({ backup, name, onChange, onOther, onPlan }: UnlockProps) => {
  const [passphrase, setPassphrase] = useState("")
  const action = useAction()
  const when = Date.parse(backup.exportedAt)
  return (
    <section className="panel" aria-label="Backup">
      <Form
        action={action}
        verb="See what would happen"
        onSubmit={() => action.run(() => planImport(backup, passphrase), (plan) => onPlan(plan, passphrase))}
        extra={<button type="button" onClick={onOther}>Another file</button>}
      >
        <p>
          <strong className="any-break">{name}</strong>
          <span className="small muted block">
            {many(backup.document.cameras.length)}
            {Number.isNaN(when) ? "" : `, exported ${momentOf(when)}`}
          </span>
        </p>
        {backup.sealed ?
          (
            <Text
              label="Passphrase of the export"
              type="password"
              autoComplete="off"
              maxLength={100}
              value={passphrase}
              onChange={(text) => {
                setPassphrase(text)
                onChange()
              }}
              hint="Left empty, the cameras come without their passwords."
            />
          ) :
          <p className="small muted">The file has no passwords in it: they have to be given afterwards.</p>}
      </Form>
    </section>
  )
}

interface PlannedProps {
  readonly backup: Backup
  readonly plan: ImportPlan
  readonly passphrase: string
}

const Planned = ({ backup, passphrase, plan }: PlannedProps) => {
  const action = useAction()
  const { add } = plan.counts
  const begin = () =>
    action.run(() => importCameras(backup, passphrase), ({ id }) => {
      location.hash = `#/cameras/jobs?id=${id}`
    })
  return (
    <section className="panel stack" aria-label="What would happen">
      <div className="spread">
        <h2>{add === 0 ? "Nothing would be added" : `${many(add)} would be added`}</h2>
        {add > 0 && (
          <button type="button" className="primary" disabled={action.busy} onClick={begin}>
            {action.busy ? "One moment…" : `Import ${many(add)}`}
          </button>
        )}
      </div>
      <p className="small muted" role="status">
        {add === 0 ?
          "All that this file has is here already, or cannot be added. Nothing of it was changed." :
          "Cameras that are here already stay as they are."}
      </p>
      <Problem error={action.error} />
      <Outcomes label="Cameras of the file" items={plan.items} />
    </section>
  )
}

interface Chosen {
  readonly name: string
  readonly backup: Backup
}

export const CameraImportPage = () => {
  const [chosen, setChosen] = useState<Chosen | null>(null)
  const [planned, setPlanned] = useState<{ readonly plan: ImportPlan; readonly passphrase: string } | null>(null)
  const reading = useAction()
  const take = (file: File) =>
    reading.run(() => readBackup(file), (backup) => {
      setPlanned(null)
      setChosen({ name: file.name, backup })
    })
  return (
    <div className="wizard">
      <div className="head">
        <div className="named">
          <a className="small" href="#/cameras">
            <Icon name="left" />Cameras
          </a>
          <h1>Import cameras</h1>
        </div>
      </div>
      <div className="wizard-step">
        {chosen === null ? <Choose error={reading.error} onFile={take} /> : (
          <Unlock
            backup={chosen.backup}
            name={chosen.name}
            onPlan={(plan, passphrase) => setPlanned({ plan, passphrase })}
            onChange={() => setPlanned(null)}
            onOther={() => {
              setPlanned(null)
              setChosen(null)
            }}
          />
        )}
        {chosen !== null && planned !== null && <Planned backup={chosen.backup} {...planned} />}
      </div>
    </div>
  )
}
