"""Writers, readers and resharders of one stream, all at once, and what they did and saw: for a test of a few seconds, and for
campaigns that also kill the server. They speak HTTP themselves, so that a test is not mostly an SDK's CPU time.
"""
