/**
 * What happens, as it happens: the live channel of the page, the number of unread notifications, and popups.
 *
 * Invariants
 * 1. The number is the node's, asked for again when an event comes and after a break; it is never counted up here.
 * 2. At most {@link mostPopups} popups wait to be seen; the oldest give way, their notifications stay.
 */
import type { EventEnvelope } from "#schema/event.ts"
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react"
import { unreadCount } from "./api-notifications.ts"
import { type ChannelState, openChannel } from "./live-channel.ts"
import { Popups } from "./parts/popups.tsx"
import { type Shown, shownOf } from "./popup.ts"
import { useSession } from "./session.tsx"
import { play } from "./sounds.ts"

interface Live {
  readonly state: ChannelState
  /** Null before it is known. */
  readonly unread: { readonly count: number; readonly more: boolean } | null
  /** Grows with each event that came: what lists them is asked for anew. */
  readonly turn: number
  /** As `turn`, of what concerns other nodes. */
  readonly nodesTurn: number
  /** After something was read or deleted. */
  readonly changed: () => void
}

const LiveContext = createContext<Live | null>(null)

export const useLive = (): Live => {
  const live = useContext(LiveContext)
  if (live === null) throw new Error("useLive stands outside of LiveGate")
  return live
}

const mostPopups = 4
/** Many events at once are one question. */
const pause = 300
/** Asked for anyhow, should the channel be broken. */
const unreadEvery = 60_000
/** After a question that was not answered, a database that is away for a moment. */
const askAgain = 3_000

/** The node's number: asked for within {@link pause} of a change of `turn`, however many come, and once a minute. */
const useUnread = (turn: number, allowed: boolean): Live["unread"] => {
  const [unread, setUnread] = useState<Live["unread"]>(null)
  const soon = useRef<() => void>(() => undefined)
  useEffect(() => {
    if (!allowed) return
    let timer = 0
    let due = Infinity
    /** The newest question; what older ones are answered with is not looked at. */
    let newest = 0
    const within = (ms: number) => {
      const at = performance.now() + ms
      if (at >= due) return
      window.clearTimeout(timer)
      due = at
      timer = window.setTimeout(ask, ms)
    }
    const ask = () => {
      due = Infinity
      newest++
      const mine = newest
      unreadCount().then((answer) => mine === newest && setUnread(answer), () => mine === newest && within(askAgain))
      within(unreadEvery)
    }
    soon.current = () => within(pause)
    ask()
    return () => {
      newest = -1
      soon.current = () => undefined
      window.clearTimeout(timer)
    }
  }, [allowed])
  useEffect(() => {
    if (turn > 0) soon.current()
  }, [turn])
  return unread
}

const usePopups = () => {
  const [popups, setPopups] = useState<ReadonlyArray<Shown>>([])
  const add = useCallback((event: EventEnvelope) => {
    const shown = shownOf(event)
    if (shown === null) return
    if (shown.sound !== null) play(shown.sound)
    setPopups((old) => [...old.filter(({ id }) => id !== shown.id), shown].slice(-mostPopups))
  }, [])
  const remove = useCallback((id: string) => setPopups((old) => old.filter((one) => one.id !== id)), [])
  return { popups, add, remove }
}

/** Follows what happens for those who may see notifications; the others see the same pages without. */
export const LiveGate = ({ children }: { readonly children: ReactNode }) => {
  const { may } = useSession()
  const allowed = may("notification:read")
  const [state, setState] = useState<ChannelState>("connecting")
  const [turn, setTurn] = useState(0)
  const [nodesTurn, setNodesTurn] = useState(0)
  const { add, popups, remove } = usePopups()
  const changed = useCallback(() => setTurn((n) => n + 1), [])
  const before = useRef<ChannelState>("connecting")

  useEffect(() => {
    if (!allowed) return
    return openChannel({
      onState: (next) => {
        // What was read in another browser meanwhile came by no event.
        if (next === "open" && before.current === "lost") changed()
        before.current = next
        setState(next)
      },
      onReset: changed,
      onEvent: (event) => {
        add(event)
        changed()
        if (/^(failover|federation)\./.test(event.type)) setNodesTurn((n) => n + 1)
      },
    })
  }, [allowed, add, changed])

  const unread = useUnread(turn, allowed)
  const live = useMemo(() => ({ state, unread, turn, nodesTurn, changed }), [state, unread, turn, nodesTurn, changed])
  return (
    <LiveContext.Provider value={live}>
      {children}
      <Popups popups={popups} onClose={remove} />
    </LiveContext.Provider>
  )
}
