/** Handlers of the server's own group, and how requests are counted. */
import { Effect, Metric } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { nightjar } from "../contract/conventions.ts"
import { HttpGroup } from "../contract/http.ts"

export const HttpHandlers = HttpApiBuilder.group(
  nightjar.add(HttpGroup),
  "http",
  (handlers) => handlers.handle("metrics", () => PrometheusMetrics.format()),
)

const requests = Metric.counter("nightjar_http_requests_total", {
  description: "HTTP requests answered",
  incremental: true,
})
const durations = Metric.histogram("nightjar_http_request_duration_seconds", {
  description: "Time from a request's head to the head of its answer",
  boundaries: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
})

/** `route` is the path as declared, never as asked for: the number of series is bounded by the contract. */
export const countRequest = (
  method: string,
  route: string,
  status: number,
  durationMs: number,
): Effect.Effect<void> => {
  const attributes = { method, route, status: String(status) }
  return Effect.andThen(
    Metric.update(Metric.withAttributes(requests, attributes), 1),
    Metric.update(Metric.withAttributes(durations, { route }), durationMs / 1000),
  )
}
