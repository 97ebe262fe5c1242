/** Handlers of the group of event types: the registry, as it stands. */
import { eventTypeNames, eventTypes } from "#schema/event.ts"
import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { nightjar } from "../contract/conventions.ts"
import { SearchEventGroup } from "../contract/search-event.ts"

const items = eventTypeNames.map((type) => {
  const { data, description, notify, permission, severity, title } = eventTypes[type]
  const { definitions, schema } = Schema.toJsonSchemaDocument(data)
  const dataSchema = Object.keys(definitions).length === 0 ? schema : { ...schema, $defs: definitions }
  return { type, title, description, severity, permission, notify, dataSchema: dataSchema as Schema.Json }
})

export const SearchEventHandlers = HttpApiBuilder.group(
  nightjar.add(SearchEventGroup),
  "searchEvent",
  (handlers) => handlers.handle("eventTypes", () => Effect.succeed({ items, nextCursor: null })),
)
