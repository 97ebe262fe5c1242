/** The entry of `nightjar`: runs its program, from the bundle where one was made of the sources as they are. */
import "./threads.ts"
import { findBundle } from "./bundle.ts"

const bundle = findBundle()
if (bundle === null) await import("./program.ts")
else await import(bundle)
