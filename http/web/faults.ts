/** What is wrong with what was written into a form, a line for each field, in words for a person. */

/** `displayName` to `Display name`; places in lists count from one. */
const nameOf = (path: ReadonlyArray<string>): string => {
  const words = path.map((part) =>
    /^\d+$/.test(part) ? String(Number(part) + 1) : part.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase()
  ).join(" ")
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}

/** A pattern says nothing to a person. */
const sayable = (text: string): string =>
  /RegExp/.test(text) ? "is not of the form that it must have" : text.slice(0, 1).toLowerCase() + text.slice(1)

const line = (path: ReadonlyArray<string>, text: string): string =>
  path.length === 0 ? sayable(text) : `${nameOf(path)}: ${sayable(text)}`

/** Of the client, before anything is sent: `<text>\n  at ["<member>"]…` one after the other. */
export const unsentFaults = (message: string): string => {
  const found = [...message.matchAll(/^(\S.*?)\n {2}at ((?:\[[^\]]*\])+)$/gm)]
  if (found.length === 0) return message
  return found.map(([, text = "", path = ""]) =>
    line([...path.matchAll(/\["?([^"\]]*)"?\]/g)].map(([, part = ""]) => part), text)
  ).join("; ")
}

interface Fault {
  readonly pointer: string
  readonly message: string
}

/** Of the node: JSON pointers whose first token is the part of the request. */
export const toldFaults = (faults: ReadonlyArray<Fault>): string =>
  faults.map(({ message, pointer }) => line(pointer.split("/").slice(2), message)).join("; ")
