/**
 * The OpenAPI 3.1 document of the Api, as it is served: what the library derives, and what it cannot know.
 *
 * Invariants
 * 1. Every operation shows its access rule (`x-nightjar-permission`); the public ones ask for no token.
 * 2. Operations outside the contract's table carry `x-nightjar-extension: true`.
 */
import { Context, Option } from "effect"
import { HttpApi, type HttpApiGroup } from "effect/http-api"
import { Access } from "./access.ts"
import { marksOf } from "./conventions.ts"

interface Parameter {
  readonly name: string
  readonly in: string
  schema: Record<string, unknown>
}
type Operation = Record<string, unknown> & { parameters?: Array<Parameter> }
type Paths = Record<string, Record<string, Operation>>

/** `/a/:b` to `/a/{b}`; a trailing `*` becomes what the contract's table calls it: `{proxyPath}` under the bff, `{path}` elsewhere. */
export const openApiPath = (path: string): string =>
  path.replace(/:(\w+)/g, "{$1}").replace(/\*$/, path.startsWith("/bff/") ? "{proxyPath}" : "{path}")

/** Numbers in a query travel as text, which the derived schema says by a pattern; people and generators want the number. */
const readable = (parameter: Parameter): Parameter => {
  if (parameter.name === "limit" && parameter.in === "query") {
    return { ...parameter, schema: { type: "integer", minimum: 1, maximum: 500, default: 100 } }
  }
  const { pattern } = parameter.schema
  const numeric = typeof pattern === "string" && pattern.startsWith("^[+-]?")
  return numeric ? { ...parameter, schema: { type: "number" } } : parameter
}

/** A transformation for `OpenApi.annotations({ transform })` of the whole Api. */
export const describe =
  <Id extends string, Groups extends HttpApiGroup.Constraint>(api: HttpApi.HttpApi<Id, Groups>) =>
  (spec: Record<string, unknown>): Record<string, unknown> => {
    const paths = Object.fromEntries(
      Object.entries(spec["paths"] as Paths).map(([path, operations]) => [openApiPath(path), operations]),
    )
    HttpApi.reflect(api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, mergedAnnotations }) => {
        const operation = paths[openApiPath(endpoint.path)]?.[endpoint.method.toLowerCase()]
        if (operation === undefined) return
        const rule = Option.getOrNull(Context.getOption(mergedAnnotations, Access))?.rule ?? "denied"
        const marks = marksOf(mergedAnnotations)
        operation["x-nightjar-permission"] = rule
        if (marks.extension === true) operation["x-nightjar-extension"] = true
        if (marks.deprecation !== undefined && marks.deprecation !== null) operation["deprecated"] = true
        if (rule === "public" || rule === "capability") operation["security"] = []
        if (operation.parameters !== undefined) operation.parameters = operation.parameters.map(readable)
      },
    })
    return { ...spec, paths }
  }
