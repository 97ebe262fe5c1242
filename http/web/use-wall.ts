/**
 * The views of the wall, kept for the signed-in user on the node. Which one a screen shows is the browser's own.
 *
 * Invariants
 * 1. `all` is made of the cameras there are, and is not kept. Whoever changes what it shows gets a view of their own.
 * 2. A change is on screen at once, and kept after a pause; what could not be kept is told, and stays on screen.
 */
import type { ChannelId } from "#schema/common.ts"
import { useEffect, useRef, useState } from "react"
import { changePreferences, readPreferences } from "./api-live.ts"
import { messageOf } from "./api.ts"
import { useRoute } from "./route.ts"
import {
  freshName,
  kept,
  layoutFor,
  type LayoutId,
  layoutOf,
  mostViews,
  type Tiles,
  type View,
  viewsIn,
} from "./wall.ts"

export const all = "all"
const lastKey = "nightjar.wall"
const layoutKey = "nightjar.wall.all"
/** Several changes in a row are kept at once. */
const pauseMs = 600

export interface Wall {
  readonly views: ReadonlyArray<View>
  /** What is shown; of `all` with the pictures of its page. */
  readonly view: View
  /** Pages of `all`, and which one is shown, from 0. */
  readonly pages: number
  readonly page: number
  readonly setPage: (page: number) => void
  readonly error: string | null
  readonly show: (id: string) => void
  readonly setTiles: (change: (tiles: Tiles) => Tiles) => void
  /** Null: `all` takes the smallest one that shows every camera; a view of one's own stays as it is. */
  readonly setLayout: (layout: LayoutId | null) => void
  /** Whether the layout follows the number of cameras; null where it cannot. */
  readonly automatic: boolean | null
  /** A view of its own, of what is shown now. Null: there are {@link mostViews} already. */
  readonly copy: (() => void) | null
  readonly rename: (name: string) => void
  readonly remove: () => void
}

const isLayout = (text: string | null): text is LayoutId => text !== null && layoutOf(text as LayoutId) !== undefined

/** Keeps changed views, one request at a time. */
const useKeeping = () => {
  const [error, setError] = useState<string | null>(null)
  const waiting = useRef(new Map<string, View | null>())
  const timer = useRef(0)
  const keep = useRef(async () => {
    const due = [...waiting.current]
    waiting.current.clear()
    for (const [id, view] of due) {
      try {
        await changePreferences(kept(id, view))
        setError(null)
      } catch (failure) {
        setError(`The view could not be kept: ${messageOf(failure)}`)
      }
    }
  })
  useEffect(() => () => {
    window.clearTimeout(timer.current)
    void keep.current()
  }, [])
  const later = (id: string, view: View | null) => {
    waiting.current.set(id, view)
    window.clearTimeout(timer.current)
    timer.current = window.setTimeout(() => void keep.current(), pauseMs)
  }
  return { error, setError, later }
}

export const useWall = (pictures: ReadonlyArray<ChannelId>): Wall => {
  const route = useRoute()
  const [views, setViews] = useState<ReadonlyArray<View>>([])
  const [layout, setLayout] = useState<LayoutId | null>(() => {
    const stored = localStorage.getItem(layoutKey)
    return isLayout(stored) ? stored : null
  })
  const [page, setPage] = useState(0)
  const { error, later, setError } = useKeeping()

  useEffect(() => {
    readPreferences().then(
      (preferences) => setViews(viewsIn(preferences)),
      (failure: unknown) => setError(`Your views could not be read: ${messageOf(failure)}`),
    )
  }, [setError])

  const wanted = route.query.get("view") ?? localStorage.getItem(lastKey) ?? all
  const own = views.find(({ id }) => id === wanted)
  const shownLayout = layout ?? layoutFor(pictures.length)
  const places = layoutOf(shownLayout).tiles
  const pages = Math.max(1, Math.ceil(pictures.length / places))
  const shownPage = Math.min(page, pages - 1)
  const view: View = own ?? {
    id: all,
    name: "All cameras",
    layout: shownLayout,
    tiles: pictures.slice(shownPage * places, (shownPage + 1) * places),
  }

  const show = (id: string) => {
    localStorage.setItem(lastKey, id)
    setPage(0)
    location.hash = `#/live?view=${id}`
  }
  const write = (next: View) => {
    setViews((old) => [...old.filter(({ id }) => id !== next.id), next])
    later(next.id, next)
  }
  const change = (next: Partial<View>) => {
    if (own !== undefined) return write({ ...own, ...next })
    if (views.length >= mostViews) return setError(`There are ${mostViews} views already; delete one first.`)
    const id = Date.now().toString(36)
    write({ ...view, ...next, id, name: freshName(views) })
    show(id)
  }
  return {
    views,
    view,
    pages: own === undefined ? pages : 1,
    page: shownPage,
    setPage,
    error,
    show,
    setTiles: (by) => change({ tiles: by(view.tiles) }),
    setLayout: (id) => {
      if (own !== undefined) return id === null ? undefined : change({ layout: id })
      if (id === null) localStorage.removeItem(layoutKey)
      else localStorage.setItem(layoutKey, id)
      setLayout(id)
    },
    automatic: own === undefined ? layout === null : null,
    copy: views.length >= mostViews ? null : () => {
      const id = Date.now().toString(36)
      write({ ...view, id, name: freshName(views) })
      show(id)
    },
    rename: (name) => change({ name }),
    remove: () => {
      if (own === undefined) return
      setViews((old) => old.filter(({ id }) => id !== own.id))
      later(own.id, null)
      show(all)
    },
  }
}
