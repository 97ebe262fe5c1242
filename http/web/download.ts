/** Hands a file to the browser, as if a person had clicked a link to it. */
export const save = (name: string, blob: Blob): void => {
  const url = URL.createObjectURL(blob)
  const link = document.createElement("a")
  link.href = url
  link.download = name
  link.click()
  // The browser has taken hold of the content by the time it comes back to us.
  window.setTimeout(() => URL.revokeObjectURL(url), 0)
}
