/**
 * SDP fragments of trickle ICE (RFC 8840, as RFC 9725 section 4.3.2 sends them by PATCH). A lite agent makes no checks, so candidates are of no use to
 * it: what is left is to say whether the fragment belongs to this session.
 *
 * Invariants
 * 1. Reading is total, within {@link maxFragmentBytes}.
 */

export const maxFragmentBytes = 16 * 1024

/** `offered`: the ICE credentials that the session was offered with. */
export const judgeFragment = (
  text: string,
  offered: { readonly ufrag: string; readonly password: string },
): "taken" | "mismatch" | "malformed" => {
  if (text.length > maxFragmentBytes) return "malformed"
  const lines = text.split(/\r\n|\n|\r/).filter((line) => line !== "")
  if (!lines.every((line) => /^[am]=\S/.test(line))) return "malformed"
  const value = (name: string) => lines.find((line) => line.startsWith(`a=${name}:`))?.slice(name.length + 3).trim()
  const ufrag = value("ice-ufrag")
  if (ufrag === undefined) return "malformed"
  return ufrag === offered.ufrag && (value("ice-pwd") ?? offered.password) === offered.password ? "taken" : "mismatch"
}
