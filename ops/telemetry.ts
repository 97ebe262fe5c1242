/**
 * Log lines of the node: Effect's Logger, with pino as the sink of the JSON form.
 *
 * Invariants
 * 1. Lines go to standard output, one a message; a line of the JSON form is one object (`level`, `time` in epoch milliseconds,
 *    `msg`, annotations).
 * 2. A `Redacted` value prints as `<redacted>` in both forms.
 */
import { Cause, Layer, Logger, type LogLevel, References } from "effect"
import { pino } from "pino"
import type { Settings } from "./config.ts"

const levels: Readonly<Record<Settings["logLevel"], LogLevel.LogLevel>> = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
}

const pinoLevel = (level: LogLevel.LogLevel): Settings["logLevel"] | "fatal" => {
  const name = level.toLowerCase()
  return name === "fatal" || name in levels ? (name as Settings["logLevel"] | "fatal") : "info"
}

const pinoLogger = () => {
  const sink = pino({ level: "trace", base: null })
  const structured = Logger.formatStructured
  return Logger.make((options) => {
    const { annotations, cause, message } = structured.log(options)
    sink[pinoLevel(options.logLevel)]({
      ...annotations,
      ...(options.cause.reasons.length === 0 ? {} : { cause: cause ?? Cause.pretty(options.cause) }),
    }, typeof message === "string" ? message : JSON.stringify(message))
  })
}

/** `12:29:05.749 INFO  PostgreSQL started  port=38421`, the cause on lines of its own. */
const textLogger = Logger.make((options) => {
  const { annotations, cause, message } = Logger.formatStructured.log(options)
  const words = typeof message === "string" ? message : JSON.stringify(message)
  const notes = Object.entries(annotations).map(([key, value]) =>
    `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`
  )
  const line = [options.date.toISOString().slice(11, 23), options.logLevel.toUpperCase().padEnd(5), words, ...notes]
    .join(" ")
  process.stdout.write(cause === undefined ? `${line}\n` : `${line}\n${cause}\n`)
})

/** The loggers and the least level of a node. */
export const layer = (settings: Pick<Settings, "logLevel" | "logFormat">): Layer.Layer<never> =>
  Layer.mergeAll(
    Logger.layer([settings.logFormat === "json" ? pinoLogger() : textLogger]),
    Layer.succeed(References.MinimumLogLevel, levels[settings.logLevel]),
  )
