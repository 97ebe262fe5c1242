/** Runs before every file of real processes: a test that failed prints what pages were open and what they showed. */
import { afterEach } from "vitest"
import { forgetPages, tellPages } from "./shown-pages.ts"

// What the file before it in this process left to be told is not of this one.
forgetPages()

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    const told = await tellPages()
    if (told !== "") console.error(`When "${task.name}" failed, pages showed:\n${told}`)
  }
  forgetPages()
})
