/**
 * This phone's registration: claimed by a code, kept by this browser alone.
 *
 * Invariants
 * 1. The code stands in the address's fragment, which is sent to nobody; it is taken out of the address once it was used.
 */

export interface Registration {
  readonly name: string
  readonly publishSecret: string
}

const key = "nightjar.phone"

export const readRegistration = (): Registration | null => {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "null") as Partial<Registration> | null
    const { name, publishSecret } = kept ?? {}
    return typeof name === "string" && typeof publishSecret === "string" ? { name, publishSecret } : null
  } catch {
    return null
  }
}

export const forgetRegistration = (): void => localStorage.removeItem(key)

export const codeInAddress = (): string => decodeURIComponent(location.hash.replace(/^#/, "")).slice(0, 64)

/** Fails with words for a person. */
export const claim = async (claimCode: string): Promise<Registration> => {
  const answer = await fetch("/camera/api/v1/cameras/mobile/claim", {
    method: "POST",
    headers: { "content-type": "application/json" },
    credentials: "omit",
    body: JSON.stringify({ claimCode }),
  }).catch(() => Promise.reject(new Error("The recorder does not answer")))
  const body = await answer.json() as Partial<Registration> & { readonly detail?: string }
  if (answer.status !== 201 || body.name === undefined || body.publishSecret === undefined) {
    throw new Error(body.detail ?? `The recorder answered ${answer.status}`)
  }
  const made = { name: body.name, publishSecret: body.publishSecret }
  localStorage.setItem(key, JSON.stringify(made))
  history.replaceState(null, "", location.pathname)
  return made
}
