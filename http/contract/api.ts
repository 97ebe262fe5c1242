/**
 * The whole HTTP interface: one Api of all groups. Client-safe: the dashboard and the CLI make typed clients from it.
 *
 * Invariants
 * 1. Every group has one line here and one handlers file of the same name in `http/handlers`.
 * 2. The id is that of `nightjar`, the root that handlers are written against.
 */
import { OpenApi } from "effect/http-api"
import { nightjar } from "./conventions.ts"
import { HealthGroup } from "./health.ts"

export class Api extends nightjar
  .add(HealthGroup)
  .annotateMerge(OpenApi.annotations({
    title: "Nightjar",
    version: "1",
    description: "A network video recorder cluster. Operations marked `x-nightjar-extension` go beyond the common contract.",
  }))
{}
