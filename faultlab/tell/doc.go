// Package tell says what the fault lab found. [Report] writes a result as text, [Page] as one HTML file, [Story] a
// schedule command by command; a [StatusLine] says how far an exploration is. [WriteMatrix] renders the committed
// matrix, and [Tales] has the recorded stories of its witnesses. It only reads results: the lab does not need it.
package tell
