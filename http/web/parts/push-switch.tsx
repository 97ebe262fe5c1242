/** Alerts on this device although no page is open: Web Push, by a service worker. */
import { useEffect, useState } from "react"
import { addPush, listPush, pushKey, removePush } from "../api-rules.ts"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

/** Why this browser can take none; empty where it can. */
const unable = (): string => {
  if (!window.isSecureContext) return "Browsers offer this on pages from https addresses only."
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return "This browser does not offer it."
  return ""
}

const subscribe = async (): Promise<void> => {
  if (await Notification.requestPermission() !== "granted") {
    throw new Error(
      "The browser does not allow notifications of this page; its settings for this site can change that.",
    )
  }
  const registration = await navigator.serviceWorker.register("/push-worker.js")
  await navigator.serviceWorker.ready
  const made = await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: await pushKey(),
  })
  const { endpoint, keys } = made.toJSON()
  const { auth, p256dh } = keys ?? {}
  if (endpoint === undefined || auth === undefined || p256dh === undefined) throw new Error("The browser gave no keys")
  await addPush({ endpoint, keys: { auth, p256dh } })
}

const unsubscribe = async (): Promise<void> => {
  const registration = await navigator.serviceWorker.getRegistration()
  await (await registration?.pushManager.getSubscription())?.unsubscribe()
}

const subscribedHere = async (): Promise<boolean> => {
  const registration = await navigator.serviceWorker?.getRegistration()
  const made = await registration?.pushManager.getSubscription()
  return made !== null && made !== undefined
}

const Devices = ({ onChange }: { readonly onChange: () => void }) => {
  const devices = useQuery("push", listPush, 0)
  const action = useAction()
  const remove = (id: string) =>
    action.run(() => removePush(id), () => {
      devices.refresh()
      onChange()
    })
  if (devices.data === null || devices.data.length === 0) return <Problem error={devices.error} />
  return (
    <>
      <Problem error={action.error} />
      <ul className="plain-list">
        {devices.data.map((one) => (
          <li key={one.id} className="spread">
            <span className="grow cut small" title={one.userAgent}>
              {one.service} · since {momentOf(one.createdAt)}
            </span>
            <button type="button" onClick={() => remove(one.id)} disabled={action.busy}>Remove</button>
          </li>
        ))}
      </ul>
    </>
  )
}

export const PushSwitch = () => {
  const why = unable()
  const [here, setHere] = useState(false)
  const [turn, setTurn] = useState(0)
  const action = useAction()
  useEffect(() => {
    if (why === "") void subscribedHere().then(setHere)
  }, [why, turn])
  const change = () => setTurn((n) => n + 1)
  return (
    <section className="panel stack" aria-labelledby="push">
      <div className="spread">
        <div className="grow">
          <h2 id="push">Alerts on this device</h2>
          <p className="small muted">
            {why || "Rules with the channel Web Push reach this browser although no page of Nightjar is open."}
          </p>
        </div>
        {why === "" && (
          <button
            type="button"
            disabled={action.busy}
            onClick={() => action.run(here ? unsubscribe : subscribe, change)}
          >
            <Icon name="bell" />
            {here ? "Switch off" : "Switch on"}
          </button>
        )}
      </div>
      <Problem error={action.error} />
      <Devices key={turn} onChange={change} />
    </section>
  )
}
