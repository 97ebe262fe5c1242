/** Whether somebody can see an element: it is on screen, and the page is not in the background. */
import { type RefObject, useEffect, useState } from "react"

/** A look away that is shorter than this interrupts nothing. */
const graceMs = 3000

export const useWatched = (element: RefObject<HTMLElement | null>): boolean => {
  const [watched, setWatched] = useState(false)
  useEffect(() => {
    let onScreen = false
    let timer = 0
    const look = () => {
      window.clearTimeout(timer)
      if (onScreen && !document.hidden) setWatched(true)
      else timer = window.setTimeout(() => setWatched(false), graceMs)
    }
    const observer = new IntersectionObserver((entries) => {
      onScreen = entries.at(-1)?.isIntersecting ?? false
      look()
    })
    observer.observe(element.current!)
    document.addEventListener("visibilitychange", look)
    return () => {
      window.clearTimeout(timer)
      observer.disconnect()
      document.removeEventListener("visibilitychange", look)
    }
  }, [element])
  return watched
}
