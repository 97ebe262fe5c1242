/** How a command fails: one line for a person, an exit code for a script. */
import { Runtime, Schema } from "effect"
import { CliError } from "effect/cli"

/** Exit codes of `nightjar`. 1 is any other failure. */
export const exitCodes = {
  /** Bad arguments or settings. */
  usage: 2,
  /** The node does not answer. */
  unreachable: 3,
  /** Not signed in, or not allowed. */
  denied: 4,
  /** What was named does not exist. */
  notFound: 5,
} as const

export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  detail: Schema.String,
  exitCode: Schema.Int,
}) {
  override get message(): string {
    return this.detail
  }
  override get [CliError.userMessage](): string {
    return this.detail
  }
  override get [Runtime.errorExitCode](): number {
    return this.exitCode
  }
}

const codeOf = (error: unknown): number => {
  if (typeof error !== "object" || error === null) return 1
  const tag = "_tag" in error && typeof error._tag === "string" ? error._tag : ""
  if (tag === "HttpClientError") return exitCodes.unreachable
  if (/^(Unauthenticated|Forbidden|InvalidCredentials|SignInLocked|InvalidRefreshToken)$/.test(tag)) {
    return exitCodes.denied
  }
  if (tag.endsWith("NotFound")) return exitCodes.notFound
  if (/^(BadRequest|InvalidInput|BadSetting)$/.test(tag)) return exitCodes.usage
  return 1
}

/** Any error of the typed client as a failure of the command. */
export const failed = (error: unknown): CommandFailed => {
  if (error instanceof CommandFailed) return error
  const told = error instanceof Error ? error.message : String(error)
  const exitCode = codeOf(error)
  const detail = exitCode === exitCodes.unreachable ? `The node does not answer; is it running? (${told})` : told
  return new CommandFailed({ detail, exitCode })
}
