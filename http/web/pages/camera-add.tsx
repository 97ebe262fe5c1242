/**
 * Adds cameras, from nothing to recording: find them, give the password, name them, see their pictures.
 *
 * Invariant
 * 1. A camera is added only once it has taken the credentials or shown its stream; what failed leaves nothing behind.
 */
import { useEffect, useState } from "react"
import type { Outcome } from "../api-camera-add.ts"
import type { Candidate } from "../parts/camera-candidate.ts"
import { FindStep, useSearch } from "../parts/camera-wizard-find.tsx"
import { DoneStep, NameStep } from "../parts/camera-wizard-finish.tsx"
import { type Outcomes, TryStep } from "../parts/camera-wizard-try.tsx"
import { Icon } from "../parts/icons.tsx"

const steps = ["Find", "Password", "Name and record", "Done"] as const

const Steps = ({ now }: { readonly now: number }) => (
  <ol className="steps">
    {steps.map((name, index) => (
      <li key={name} aria-current={index === now ? "step" : undefined} className={index < now ? "past" : ""}>
        <span className="ball">{index < now ? <Icon name="tick" /> : index + 1}</span>
        {name}
      </li>
    ))}
  </ol>
)

const camerasOf = (outcomes: Outcomes) =>
  Object.values(outcomes).flatMap((one) => typeof one === "object" && one.kind === "added" ? [one.camera] : [])

export const CameraAddPage = () => {
  const search = useSearch()
  const [typed, setTyped] = useState<ReadonlyArray<Candidate>>([])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [outcomes, setOutcomes] = useState<Outcomes>({})
  const [step, setStep] = useState(0)
  const found = search.data ?? []
  const candidates = [...found, ...typed.filter(({ key }) => !found.some((one) => one.key === key))]
  const choose = (keys: ReadonlyArray<string>, on: boolean) =>
    setChosen((old) => new Set(on ? [...old, ...keys] : [...old].filter((key) => !keys.includes(key))))

  // One camera alone is what somebody came for.
  const only = found.length === 1 && found[0]?.cameraId === null ? found[0].key : null
  useEffect(() => {
    if (only !== null) choose([only], true)
  }, [only])

  const wanted = candidates.filter(({ key }) => chosen.has(key))
  const cameras = camerasOf(outcomes)
  return (
    <div className="wizard">
      <div className="head">
        <div className="named">
          <a className="small" href="#/cameras">
            <Icon name="left" />Cameras
          </a>
          <h1>Add cameras</h1>
        </div>
      </div>
      <Steps now={step} />
      {step === 0 && (
        <FindStep
          search={search}
          candidates={candidates}
          chosen={chosen}
          onChoose={choose}
          onAdd={(candidate) => {
            setTyped((old) => [...old.filter(({ key }) => key !== candidate.key), candidate])
            choose([candidate.key], true)
          }}
          onNext={() => setStep(1)}
        />
      )}
      {step === 1 && (
        <TryStep
          candidates={wanted}
          outcomes={outcomes}
          onOutcome={(key: string, outcome: Outcome | "trying") => setOutcomes((old) => ({ ...old, [key]: outcome }))}
          onBack={() => {
            setOutcomes({})
            setStep(0)
          }}
          onNext={() => setStep(2)}
        />
      )}
      {step === 2 && <NameStep cameras={cameras} onNext={() => setStep(3)} />}
      {step === 3 && <DoneStep cameras={cameras} />}
    </div>
  )
}
